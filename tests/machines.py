"""A Dask scheduler and workers as processes of their own, on the loopback interface, for tests that need real ones."""

import json
import os
import signal
import subprocess
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import warm
from limits import COMMAND


class Machines:
    """Processes of one cluster; the workers keep their runs in a folder of their own.

    Parameters
    ----------
    folder : Path
        Where they write.
    options : tuple of str, default ()
        Words for the commands of the scheduler and of every worker, such as those about certificates.
    variables : mapping of str to str, optional
        What to add to their environment.
    """

    def __init__(
        self, folder: Path, *, options: tuple[str, ...] = (), variables: Mapping[str, str] | None = None
    ) -> None:
        self.folder, self.options, self.variables = folder, options, dict(variables or {})
        self.processes: list[subprocess.Popen] = []
        self.runs = folder / "worker-runs"
        self.file = folder / "scheduler.json"
        self.scheduler = self.add_scheduler()
        wait_until(lambda: self.file.is_file() and self.file.read_text().strip().endswith("}"))
        self.address = json.loads(self.file.read_text())["address"]

    def add_scheduler(self, *, port: str = "0") -> subprocess.Popen:
        words = ["scheduler", "--host", "127.0.0.1", "--port", port, "--no-dashboard", "--scheduler-file"]
        return self.start(*words, str(self.file))

    def add_worker(self, *words: str) -> subprocess.Popen:
        options = ["--host", "127.0.0.1", "--nthreads", "1", "--no-dashboard", "--local-directory"]
        return self.start("worker", self.address, *options, str(self.folder), *words)

    def start(self, *words: str) -> subprocess.Popen:
        environment = {**os.environ, "FIRSTLIGHT_RUNS": str(self.runs), "OMP_NUM_THREADS": "1"}
        process = warm.Popen(
            ["-m", "dask", *words, *self.options],
            env={**environment, **self.variables},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            end(process)


def end(process: subprocess.Popen) -> None:
    """Kill a process with the worker that it watches."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait(timeout=COMMAND)


def wait_until(condition) -> None:
    limit = time.monotonic() + COMMAND
    while not condition():
        assert time.monotonic() < limit
        time.sleep(0.05)
