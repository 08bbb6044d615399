"""Commands whose address space is limited to little more than they need before they begin.

Limits are 1.2, 1.5 and 2 times the space of the process at rest, once all is imported, and points between that and what
the command reaches undisturbed: each makes another allocation fail. The command must end well or in one line with exit
code 2, and given again without a limit must leave the same files with the same bits.
"""

import resource
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np

import warm
from crash.copies import contents, differences, is_one_line, make_places, start_copy, waited
from crash.tiny_commands import COMMANDS, Command, prepare
from firstlight._internal.environment import code_commit

TIMES = (1.2, 1.5, 2.0)
BETWEEN = 6
# a quarter of a gigabyte once it is decoded
LARGE = "firstlight train --data large.npz --n 16 --epochs 1 --output w.safetensors"


def _large_data(out: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 256, (5_000, 64, 64, 3), dtype=np.uint8)
    np.savez(out / "large.npz", x=x, y=np.arange(len(x)) % 2)


CASES = (
    *(COMMANDS[name] for name in ("train", "networks-train", "labels", "inspect", "rfm", "data-get")),
    Command("train on much", LARGE, _large_data),
)


def limit_memory(command: Command, folder: Path) -> list[str]:
    """Run a command with every limit, and again without; return what went wrong."""
    root, template = folder / "root", folder / "template"
    make_places(template, "out")
    _run(template, lambda: prepare(command, template / "out"))
    before = contents(template)

    def run(share: float | None, times: float = 0.0) -> tuple[int, str, int, int]:
        """Limit to so many times the space at rest, or to a share of what is needed beyond it."""

        def limited() -> None:
            rest = _size("VmSize")
            if times or share is not None:
                most = int(rest * times) if times else rest + int(share * (peak - rest))
                resource.setrlimit(resource.RLIMIT_AS, (most, most))
            try:
                command.call()
            finally:
                (folder / "sizes").write_text(f"{rest} {_size('VmPeak')}")

        code, said = _run(root, limited)
        return code, said, *map(int, (folder / "sizes").read_text().split())

    def reset() -> None:
        shutil.rmtree(root, ignore_errors=True)
        shutil.copytree(template, root)

    reset()
    code, said, rest, peak = run(None)
    if code:
        raise RuntimeError(f"{command.name} ended with {code} without a limit: {said}")
    expected, faults, ways = contents(root), list[str](), Counter[str]()
    limits = [(None, times) for times in TIMES] + [(step / BETWEEN, 0.0) for step in range(BETWEEN)]
    for share, times in limits:
        reset()
        code, said, *_ = run(share, times)
        name = f"at {times:g} times" if times else f"at {share:.2f} of what it needs beyond"
        if code and not (code == 2 and is_one_line(code, said)):
            faults.append(f"{name}: ended with {code}: {said[-600:]!r}")
        ways["one line" if code else "success"] += 1
        if (state := contents(root)) not in (before, expected):
            code, said, *_ = run(None)
            state = contents(root)
            missing = differences(state, expected)
            if missing or set(state) - set(expected) or (code and not command.refuses(said)):
                faults.append(
                    f"{name}: given again, {missing}, {sorted(set(state) - set(expected))}, {said!r}"
                )
    words = ", ".join(f"{count} {way}" for way, count in sorted(ways.items()))
    print(
        f"little memory, {command.name}: {rest >> 20} MB at rest, {peak >> 20} MB needed; {words}; "
        f"{len(faults)} faults",
        flush=True,
    )
    return [f"{command.name}: {fault}" for fault in faults]


def _run(root: Path, call: Callable[[], object]) -> tuple[int, str]:
    with tempfile.TemporaryFile("w+") as said:
        code = waited(start_copy(root, call, said.fileno()))
        said.seek(0)
        return code, said.read()


def _size(name: str) -> int:
    """Bytes of address space of this process, now or at most."""
    return int(Path("/proc/self/status").read_text().split(f"{name}:")[1].split()[0]) * 1024


def main() -> int:
    """Try every command, or those that are named."""
    warm.import_all()
    import torch._dynamo  # noqa: F401 - the optimisers of torch ask for it

    code_commit()
    faults = []
    for command in CASES:
        if command.name in sys.argv[1:] or not sys.argv[1:]:
            with tempfile.TemporaryDirectory(prefix="crash-") as folder:
                faults += limit_memory(command, Path(folder).resolve())
    for fault in faults:
        print(f"little memory, {fault}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
