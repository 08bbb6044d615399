"""Facts about this machine: recorded with every run, printed by `firstlight doctor`."""

import math
import os
import platform
import subprocess
from contextlib import suppress
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from firstlight._internal.errors import InvalidInput
from firstlight._internal.version import __version__

PATIENCE = 300
"""Seconds to wait for git: a run of low priority on a busy machine must not lose its commit."""


def user_folder(variable: str, *, leaf: str) -> Path:
    """Return the folder named by an environment variable, else `leaf` in the user's cache folder."""
    if given := os.environ.get(variable):
        return Path(given).expanduser()
    base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "firstlight" / leaf


@cache
def code_commit() -> str:
    """Commit of the source tree the package runs from ('+' if changed); empty when installed elsewhere."""
    here = Path(__file__).resolve().parent
    try:
        head = subprocess.run(
            ["git", "-C", str(here), "describe", "--always", "--dirty=+", "--abbrev=12", "--exclude=*"],
            capture_output=True, text=True, timeout=PATIENCE, check=True,
        )  # fmt: skip
        tracked = subprocess.run(
            ["git", "-C", str(here), "ls-files", "--error-unmatch", __file__],
            capture_output=True, text=True, timeout=PATIENCE, check=False,
        )  # fmt: skip
    except (OSError, subprocess.SubprocessError):
        return ""
    return head.stdout.strip() if tracked.returncode == 0 else ""


def package_versions() -> dict[str, str]:
    """Versions of the packages that decide the numbers."""
    versions = {}
    for name in ("torch", "numpy", "scipy", "numba", "scikit-learn", "safetensors"):
        try:
            versions[name] = version(name)
        except PackageNotFoundError:
            versions[name] = "missing"
    return versions


def processor() -> str:
    """Model of the processor and the widest vectors it offers, which decide the last bits of sums."""
    with suppress(OSError, IndexError):
        text = Path("/proc/cpuinfo").read_text()
        model = text.split("model name")[1].split(":", 1)[1].splitlines()[0].strip()
        flags = set(text.split("flags")[1].splitlines()[0].split()) if "flags" in text else set()
        widest = next((name for name in ("avx512f", "avx2", "avx") if name in flags), "")
        return " ".join(filter(None, (model, widest)))
    return platform.processor() or platform.machine()


def environment() -> dict[str, str | int]:
    """Describe the machine without naming it: no paths, no host name."""
    from firstlight._internal.devices import chosen_device  # torch takes a second to import

    device = chosen_device()
    return {
        "firstlight": __version__,
        "python": platform.python_version(),
        "system": f"{platform.system()} {platform.machine()}",
        "processor": processor(),
        "cores": os.cpu_count() or 1,
        "device": "cpu" if device is None else device.type,
        **package_versions(),
    }


def free_memory() -> int:
    """Bytes of memory to use without swapping: `FIRSTLIGHT_MEMORY_GB` if given, else what the system reports."""
    given = os.environ.get("FIRSTLIGHT_MEMORY_GB", "")
    if given:
        try:
            wanted = float(given)
        except ValueError:
            wanted = math.nan
        if not wanted > 0:
            raise InvalidInput(f"`FIRSTLIGHT_MEMORY_GB` must be a positive number; got {given!r}.")
        return int(wanted * 1e9)
    with suppress(OSError, ValueError, IndexError):
        kilobytes = Path("/proc/meminfo").read_text().split("MemAvailable:")[1].split()[0]
        return int(kilobytes) * 1024
    return 4 << 30  # the system reports nothing: assume little
