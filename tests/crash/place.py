"""A folder in which a command runs, and what must be true of it afterwards."""

import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

from limits import COMMAND

MARK = "FIRSTLIGHT_CRASH_TEST"
ORPHAN_SECONDS = 60.0  # they look twice a second; the rest is for a busy machine
# Ctrl-C is heeded also if this is started in the background, where shells turn it off; checkpoints come every half
# second instead of every 20: the commands here take seconds
PROGRAM = """
import signal
signal.signal(signal.SIGINT, signal.default_int_handler)
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

    def start(self, command: str, *, program: str = PROGRAM) -> subprocess.Popen[str]:
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
            [sys.executable, "-c", program, *command.split()],
            cwd=self.root / "out",
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def finish(self, command: str) -> dict[str, str]:
        """Run to the end, and return what :meth:`results` does."""
        process = self.start(command)
        _, said = process.communicate(timeout=COMMAND)
        if process.returncode:
            raise RuntimeError(f"{command} ended with {process.returncode}: {said}")
        self.look_for_orphans()
        self.look_for_leftovers()
        return self.results()

    def results(self) -> dict[str, str]:
        """Every run without its times, and a digest of every file with weights or numbers."""
        results = {}
        for file in sorted((self.root / "runs").glob("*/run.json")):
            body = json.loads(file.read_text())
            kept = {name: body[name] for name in ("id", "what", "config", "data", "result", "arrays_sha256")}
            results[body["id"]] = json.dumps(_without_times(kept), sort_keys=True)
        out = self.root / "out"
        for file in sorted([*out.glob("*.safetensors"), *out.glob("*.csv")]):
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


def differences(results: dict[str, str], expected: dict[str, str]) -> list[str]:
    """What is missing or has other contents than it should, in words."""
    return [f"{id} differs" for id in expected if results.get(id) != expected[id]]


def told(name: str, faults: list[str]) -> list[str]:
    """Print what is wrong, and return it."""
    for fault in faults:
        print(f"{name}: {fault}", flush=True)
    return faults
