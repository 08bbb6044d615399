"""Kill commands at random moments until they have ended often enough; exit 1 if anything is lost or left behind.

`python -m crash [--kills 20] [--seed 0] [--commands train,identity,reproduce,tour]`, with `tests` on the path, as `make
crash` does it. Each command is killed with SIGKILL and started again until it ends. Its runs and weights must equal, to
the bit, those of a command that nobody killed; no process and no temporary file of it may be left. Then it is asked
to stop by SIGTERM and by Ctrl-C: it must exit with 143 and 130, in one line, with what it had so far.
"""

import argparse
import hashlib
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path

from limits import COMMAND

COMMANDS = {
    "train": "train --n 160 --epochs 12 --output w.safetensors",
    "identity": "identity --data photos --depths 1,2 --steps 40 --size 10 --width 8 --output page.html",
    "reproduce": "reproduce id.thm --scale smoke --seeds 2 --output page.html",
    "tour": "tour --data photos --n 60 --minutes 0.1 --output page.html",
}
# what is asked to stop must not have ended by then
LONGER = {
    "train": ("--epochs 12", "--epochs 5000"),
    "identity": ("--steps 40", "--steps 100000 --stop-below 1e-30"),
}
MARK = "FIRSTLIGHT_CRASH_TEST"
ORPHAN_SECONDS = 60.0  # they look twice a second; the rest is for a busy machine
# checkpoints every half second instead of every 20: the commands here take seconds
PROGRAM = """
from firstlight.cli.main import main
from firstlight.training import loop
loop.CHECKPOINT_SECONDS = 0.5
main()
"""


@dataclass
class Place:
    """A folder in which a command runs: its runs, its output and its temporary files."""

    root: Path
    faults: list[str] = field(default_factory=list)
    longest_orphan: float = 0.0

    def start(self, command: str) -> subprocess.Popen[str]:
        for name in ("runs", "tmp", "out"):
            (self.root / name).mkdir(parents=True, exist_ok=True)
        environment = {
            **os.environ,
            MARK: str(self.root),
            "FIRSTLIGHT_RUNS": str(self.root / "runs"),
            "FIRSTLIGHT_JOBS": "2",
            "TMPDIR": str(self.root / "tmp"),
            "JOBLIB_TEMP_FOLDER": str(self.root / "tmp"),
            "TORCHINDUCTOR_CACHE_DIR": str(self.root / "cache"),
        }
        return subprocess.Popen(
            [sys.executable, "-c", PROGRAM, *command.split()],
            cwd=self.root / "out",
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, command: str) -> dict[str, str]:
        """Run to the end, and return a digest of each run and of the weights."""
        process = self.start(command)
        _, said = process.communicate(timeout=COMMAND)
        if process.returncode:
            raise RuntimeError(f"{command} ended with {process.returncode}: {said}")
        self.look_for_orphans()
        self.look_for_leftovers()
        return self.results()

    def results(self) -> dict[str, str]:
        results = {}
        for file in sorted((self.root / "runs").glob("*/run.json")):
            body = json.loads(file.read_text())
            kept = {name: body[name] for name in ("id", "what", "config", "data", "result", "arrays_sha256")}
            results[body["id"]] = json.dumps(_without_times(kept), sort_keys=True)
        for file in sorted((self.root / "out").glob("*.safetensors")):
            results[file.name] = hashlib.sha256(file.read_bytes()).hexdigest()
        return results

    def processes(self) -> list[int]:
        """Processes that still carry the mark of this folder."""
        mark, alive = f"{MARK}={self.root}".encode(), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdigit() and int(entry.name) != os.getpid():
                try:
                    if mark in (entry / "environ").read_bytes().split(b"\0"):
                        alive.append(int(entry.name))
                except OSError:
                    continue
        return alive

    def look_for_orphans(self) -> None:
        start = time.monotonic()
        while alive := self.processes():
            if time.monotonic() - start > ORPHAN_SECONDS:
                self.faults.append(f"{len(alive)} processes outlive the command")
                for pid in alive:
                    os.kill(pid, signal.SIGKILL)
                return
            time.sleep(0.1)
        self.longest_orphan = max(self.longest_orphan, time.monotonic() - start)

    def look_for_leftovers(self) -> None:
        left = [
            *self.root.rglob("*.part"),
            *(self.root / "runs").glob(".scratch/*"),
            *(self.root / "tmp").iterdir(),
        ]
        self.faults += [f"left behind: {path.relative_to(self.root)}" for path in left]

    def clear(self) -> None:
        for name in ("runs", "tmp", "out"):
            shutil.rmtree(self.root / name, ignore_errors=True)


def _without_times(value: object) -> object:
    """Results without what no two runs share: the seconds they took."""
    if isinstance(value, dict):
        return {k: _without_times(v) for k, v in value.items() if "seconds" not in k}
    return [_without_times(v) for v in value] if isinstance(value, list) else value


def kill_often(name: str, command: str, kills: int, rng: random.Random, folder: Path) -> list[str]:
    """Kill one command again and again, and compare each result with that of an undisturbed one."""
    quiet, place = Place(folder / "quiet"), Place(folder / "killed")
    start = time.monotonic()
    expected = quiet.finish(command)
    duration = time.monotonic() - start
    done = finished = 0
    while done < kills:
        process = place.start(command)
        try:
            process.communicate(timeout=rng.uniform(0.0, duration))
            finished += 1  # before it was killed
            place.faults += _differences(place.results(), expected)
            place.clear()
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            done += 1
            place.look_for_orphans()
    place.faults += _differences(place.finish(command), expected)
    print(
        f"{name}: {done} kills, {finished + 1} results compared ({len(expected)} runs and files each), workers gone "
        f"after at most {place.longest_orphan:.1f} s, {len(place.faults)} faults",
        flush=True,
    )
    return _told(name, quiet.faults + place.faults)


def _differences(results: dict[str, str], expected: dict[str, str]) -> list[str]:
    return [f"{id} differs" for id in expected if results.get(id) != expected[id]]


def ask_to_stop(name: str, command: str, rng: random.Random, folder: Path) -> list[str]:
    """Stop one command by each signal once it works; it must say so in one line, and keep what it has."""
    faults = []
    command = command.replace(*LONGER.get(name, ("", "")))
    for number, code in ((signal.SIGTERM, 143), (signal.SIGINT, 130)):
        place = Place(folder / number.name)
        process = place.start(command)
        # the interpreter must have come to the command, and a training to its first steps
        sign = ".scratch/*/checkpoint*" if name == "train" else ".scratch/*"
        while not list((place.root / "runs").glob(sign)) and process.poll() is None:
            time.sleep(0.02)
        time.sleep(rng.uniform(0.0, 0.5))
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
        if process.returncode != code or lines != [f"firstlight: {STOPPED}"]:
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
        faults += _told(name, place.faults)
    return faults


def _told(name: str, faults: list[str]) -> list[str]:
    for fault in faults:
        print(f"{name}: {fault}", flush=True)
    return faults


STOPPED = "stopped. Finished runs are kept; the same command resumes."


def main() -> int:
    parser = argparse.ArgumentParser(prog="crash", description=__doc__)
    parser.add_argument("--kills", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--commands", default=",".join(COMMANDS))
    given = parser.parse_args()
    faults = []
    with tempfile.TemporaryDirectory(prefix="crash-") as folder:
        for name in given.commands.split(","):
            rng, place = random.Random(f"{given.seed} {name}"), Path(folder) / name
            faults += kill_often(name, COMMANDS[name], given.kills, rng, place)
            faults += ask_to_stop(name, COMMANDS[name], rng, place)
            shutil.rmtree(place, ignore_errors=True)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
