"""One command that is asked to stop."""

import os
import random
import signal
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path

from crash.place import Place, told
from limits import COMMAND

COMMANDS = {
    "train": "train --n 160 --epochs 12 --output w.safetensors",
    "identity": "identity --data photos --depths 1,2 --steps 40 --size 10 --width 8 --output page.html",
    "tour": "tour --data photos --n 60 --minutes 0.1 --output page.html",
    "rfm": "rfm --n 60 --n-test 20 --depth 2 --rounds 2 --no-network --output page.html",
    "labels": "labels photos --n 60 --output page.html",
}
# what is asked to stop must not have ended by then
LONGER = {
    "train": ("--epochs 12", "--epochs 5000"),
    "identity": ("--steps 40", "--steps 100000 --stop-below 1e-30"),
}
# what a command leaves on the disk once it works: a checkpoint, a run under way, what its workers tell
SIGNS = {
    "train": "runs/.scratch/*/checkpoint*",
    "identity": "runs/.scratch/*",
    "tour": "runs/.scratch/*",
    "labels": "tmp/firstlight-*/*",
}
STOPPED = "firstlight: stopped. "


@dataclass(frozen=True)
class Undisturbed:
    """What a command gives if nobody kills it, and the seconds it takes."""

    results: dict[str, str]
    seconds: float

    @classmethod
    def of(cls, command: str, place: Place) -> "Undisturbed":
        start = time.monotonic()
        return cls(place.finish(command), time.monotonic() - start)


def ask_to_stop(name: str, rng: random.Random, folder: Path) -> list[str]:
    """Stop one command by each signal once it works; it must say so in one line, and keep what it has."""
    faults = []
    seconds = Undisturbed.of(COMMANDS[name], Place(folder / "quiet")).seconds
    command = COMMANDS[name].replace(*LONGER.get(name, ("", "")))
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        place = Place(folder / number.name)
        process = place.start(command)
        _wait_for_work(name, process, place, rng.uniform(0.3, 0.6) * seconds)
        if number == signal.SIGINT:  # a terminal sends it to all
            os.killpg(process.pid, number)
        else:
            process.send_signal(number)
        _, said = process.communicate(timeout=COMMAND)
        place.look_for_orphans()
        place.faults += [f"{path} is left" for path in (place.root / "tmp").iterdir()]
        if process.returncode == 0:
            print(f"{name}: ended before {number.name}", flush=True)
            continue
        lines = [line for line in said.splitlines() if line.startswith("firstlight:") or "Traceback" in line]
        if process.returncode != code or not (len(lines) == 1 and lines[0].startswith(STOPPED)):
            place.faults.append(f"{number.name} ended with {process.returncode} and said {said!r}")
        kept = [
            *(place.root / "runs").glob("*/run.json"),
            *(place.root / "runs").glob(".scratch/*/checkpoint*"),
        ]
        if name == "train" and not kept:
            place.faults.append(f"{number.name} left no checkpoint")
        print(
            f"{name}: {number.name} exits with {process.returncode}, {len(kept)} runs and checkpoints kept",
            flush=True,
        )
        faults += told(name, place.faults)
    return faults


def _wait_for_work(name: str, process: subprocess.Popen, place: Place, seconds: float) -> None:
    """Wait until a command has come to its work; one that leaves no sign of it gets some of the time it takes."""
    limit = time.monotonic() + seconds
    while process.poll() is None:
        if list(place.root.glob(SIGNS[name])) if name in SIGNS else time.monotonic() > limit:
            return
        time.sleep(0.02)
