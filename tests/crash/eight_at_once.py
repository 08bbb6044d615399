"""Eight commands at a time on one store, one data cache and one bank, half of which are killed at random moments.

They are the same and different ones. Whoever is not killed must end with the bits of an undisturbed command, and once
all are done each command is given again: then every file is there with those bits, and no lock and no part of a file.
"""

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import warm
from crash.copies import contents, differences, is_one_line, make_places, start_copy, waited
from crash.tiny_commands import Command, copy_of_mnist, prepare
from firstlight._internal.environment import code_commit
from limits import COMMAND

N_PROCESSES = 8
TRAIN = "firstlight train --data pets.npz --epochs 4 --batch-size 10 --networks 2 --output w.safetensors"
WRITING = (
    Command("train", TRAIN),
    Command("train other", f"{TRAIN} --seed 1"),
    Command("network", "firstlight networks train tiny-0", done="already"),
    Command("data", "firstlight data get mnist --from copy.npz"),
    Command("labels", "firstlight labels pets.npz --pred-probs probabilities.npy --output page.html"),
)
# these undo what others need, so that there is always something to write; who misses it may say so
UNDOING = (
    Command("network again", "firstlight networks train tiny-0 --again"),
    Command("remove", "firstlight runs rm RUN", done="No run"),
)
READING = (Command("list", "firstlight runs list"), Command("networks", "firstlight networks list"))


@dataclass
class Running:
    """A copy that runs one command, and when it will be killed."""

    command: Command
    out: str
    ends: float
    is_killed: bool = False


def run_at_once(seconds: float, rng: random.Random, folder: Path) -> list[str]:
    """Keep eight processes busy for so long; return what went wrong."""
    quiet, shared = folder / "quiet", folder / "shared"
    outs = [f"out-{index}" for index in range(N_PROCESSES)]
    expected = _one_after_the_other(quiet)
    for place in (shared / out for out in outs):
        _make_inputs(shared, place.name)
    running: dict[int, Running] = {}
    count, faults = Counter[str](), list[str]()
    limit = time.monotonic() + seconds
    while running or time.monotonic() < limit:
        for out in set(outs) - {one.out for one in running.values()} if time.monotonic() < limit else ():
            command = rng.choice((*WRITING, *WRITING, *UNDOING, *READING))
            ends = time.monotonic() + (rng.expovariate(1 / 2.0) if rng.random() < 0.5 else COMMAND)
            with (folder / f"{out}.txt").open("w") as said:
                process = start_copy(shared, command.call, said.fileno(), out=out)
            running[process] = Running(command, out, ends)
        for process, one in list(running.items()):
            if time.monotonic() > one.ends and not one.is_killed:
                one.is_killed = True
                os.kill(process, signal.SIGKILL)
            done, status = os.waitpid(process, os.WNOHANG)
            if done:
                faults += _judged(running.pop(process), status, shared, expected, count)
        time.sleep(0.01)
    # once more, undisturbed: what the killed ones left is used or swept
    state = _one_after_the_other(shared, outs[0])
    faults += [f"at the end: {what}" for what in [differences(state, expected)] if what]
    left = [
        path
        for path in shared.rglob("*")
        if path.suffix in (".part", ".lock") or path.parent.name == ".scratch"
    ]
    faults += [f"left behind: {path.relative_to(shared)}" for path in left]
    words = ", ".join(f"{number} {name}" for name, number in sorted(count.items()))
    print(f"eight at once: {seconds:g} s, {words}; {len(faults)} faults", flush=True)
    return faults


def _make_inputs(root: Path, out: str) -> None:
    make_places(root, out)
    prepare(Command("inputs", "", copy_of_mnist), root / out)


def _one_after_the_other(root: Path, out: str = "out") -> dict[str, str]:
    """Run every command that writes, and return what it wrote, whatever the folder it ran in."""
    _make_inputs(root, out)
    for command in WRITING:
        with tempfile.TemporaryFile("w+") as said:
            code = waited(start_copy(root, command.call, said.fileno(), out=out))
            said.seek(0)
            if code and not command.refuses(text := said.read()):
                raise RuntimeError(f"{command.name} failed undisturbed: {text}")
    return {
        name.replace(f"{out}/", "out/"): digest
        for name, digest in contents(root).items()
        if name.startswith(("runs/", "data/", "bank/", f"{out}/"))
    }


def _judged(
    one: Running, status: int, root: Path, expected: dict[str, str], count: Counter[str]
) -> list[str]:
    """What is wrong with one that ended."""
    code = os.waitstatus_to_exitcode(status)
    text = (root.parent / f"{one.out}.txt").read_text()
    if one.is_killed and code == -signal.SIGKILL:
        count["killed"] += 1
        return []
    count["ended" if code == 0 else "refused"] += 1
    faults = []
    if "damaged" in text or "Traceback" in text:
        faults.append("read a half")
    if code and not (is_one_line(code, text) and (one.command.refuses(text) or "No run" in text)):
        faults.append(f"ended with {code}")
    if code == 0 and one.command.name == "train":
        made = {f"out/{path.name}": digest for path, digest in _weights(root / one.out)}
        faults += [f"{name} differs" for name, digest in made.items() if expected[name] != digest]
    return [f"{one.command.name}: {fault}, said {text!r}" for fault in faults]


def _weights(out: Path) -> list[tuple[Path, str]]:
    return [(out / name, digest) for name, digest in contents(out).items() if name.endswith("0.safetensors")]


def main() -> int:
    """Run for so many seconds with a seed, as `python -m crash.eight_at_once SECONDS SEED`."""
    warm.import_all()

    code_commit()
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        faults = run_at_once(float(sys.argv[1]), random.Random(sys.argv[2]), Path(folder).resolve())
    for fault in faults:
        print(f"eight at once: {fault}", flush=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
