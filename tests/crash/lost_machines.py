"""A command on a real scheduler and two real workers, of which some are lost at a random moment.

Whatever is lost, the command ends: with the results of an undisturbed one, or in one line. In the second case, and if
the command itself was killed, it is given again to a sound cluster and must come to the same results.
"""

import os
import random
import shutil
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
from distributed import Client

from crash.place import MARK, Place, differences, told
from crash.stops import Undisturbed
from limits import COMMAND
from machines import Machines, end, wait_until

COMMAND_LINE = "train --n 64 --epochs 40 --networks 4 --output w.safetensors --cluster {address}"
HANG_SECONDS = 900.0  # several times what the command needs on a busy machine, with all of its time limits
# a silent worker is given up after 30 s instead of 5 minutes, and an empty cluster after 10 s instead of 30
VARIABLES = {"DASK_DISTRIBUTED__SCHEDULER__WORKER_TTL": "30 seconds"}
PROGRAM = """
from firstlight.cli.main import main
from firstlight._internal.cluster import cluster
cluster.ALONE_SECONDS = 10.0
main()
"""


class Cluster:
    """A scheduler with two workers that can be broken and mended."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.machines: Machines | None = None
        self.workers: list[subprocess.Popen] = []
        self.mend()

    @property
    def address(self) -> str:
        assert self.machines is not None
        return self.machines.address

    def mend(self) -> None:
        """Replace what is gone, and wait until everybody has found each other."""
        if self.machines is None or self.machines.scheduler.poll() is not None:
            self.close()
            shutil.rmtree(self.folder, ignore_errors=True)
            self.folder.mkdir(parents=True)
            self.machines = Machines(self.folder, variables={**VARIABLES, MARK: str(self.folder)})
        self.workers = [worker for worker in self.workers if worker.poll() is None]
        while len(self.workers) < 2:
            # with torch, whose import on a busy machine would keep the worker silent for long
            self.workers.append(self.machines.add_worker("--no-nanny", "--preload", "firstlight.training"))
        with Client(self.address, timeout=COMMAND, set_as_default=False) as client:
            wait_until(lambda: len(client.scheduler_info(n_workers=-1)["workers"]) == 2)

    def close(self) -> None:
        if self.machines is not None:
            self.machines.close()
        self.workers = []

    @property
    def runs(self) -> Path:
        return self.folder / "worker-runs"


def kill_scheduler(cluster: Cluster, process: subprocess.Popen, rng: random.Random) -> None:
    assert cluster.machines is not None
    end(cluster.machines.scheduler)


def kill_all_workers(cluster: Cluster, process: subprocess.Popen, rng: random.Random) -> None:
    for worker in cluster.workers:
        end(worker)


def kill_one_worker(cluster: Cluster, process: subprocess.Popen, rng: random.Random) -> None:
    end(rng.choice(cluster.workers))


def silence_one_worker(cluster: Cluster, process: subprocess.Popen, rng: random.Random) -> None:
    """Stop a worker without ending it: its connections stay open, and it never answers."""
    os.killpg(rng.choice(cluster.workers).pid, signal.SIGSTOP)


def kill_client(cluster: Cluster, process: subprocess.Popen, rng: random.Random) -> None:
    process.kill()


FAULTS: dict[str, Callable[[Cluster, subprocess.Popen, random.Random], None]] = {
    "scheduler-killed": kill_scheduler,
    "workers-killed": kill_all_workers,
    "worker-killed": kill_one_worker,
    "worker-silent": silence_one_worker,
    "client-killed": kill_client,
}


def lose_machines(kinds: list[str], times: int, seed: int, folder: Path) -> list[str]:
    """Try every kind of loss so many times; return what went wrong."""
    quiet, cluster = Place(folder / "quiet"), Cluster(folder / "machines")
    try:
        expected = Undisturbed.of(COMMAND_LINE.format(address=cluster.address), quiet)
        faults = told("cluster", quiet.faults)
        for kind in kinds:
            faults += _lose_often(kind, times, expected, random.Random(f"{seed} {kind}"), folder, cluster)
        return faults
    finally:
        cluster.close()


def _lose_often(
    kind: str, times: int, expected: Undisturbed, rng: random.Random, folder: Path, cluster: Cluster
) -> list[str]:
    place, outcomes = Place(folder / kind), Counter[str]()
    while sum(outcomes.values()) < times:
        place.clear()
        shutil.rmtree(cluster.runs, ignore_errors=True)
        cluster.mend()
        process = place.start(COMMAND_LINE.format(address=cluster.address), program=PROGRAM)
        try:
            process.communicate(timeout=rng.uniform(0.1, 1.0) * expected.seconds)
            continue  # it was faster than the fault
        except subprocess.TimeoutExpired:
            FAULTS[kind](cluster, process, rng)
        outcomes[_outcome(kind, process, place, expected, cluster)] += 1
    words = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()))
    print(f"{kind}: {times} times: {words}; {len(place.faults)} faults", flush=True)
    return told(kind, place.faults)


def _outcome(
    kind: str, process: subprocess.Popen, place: Place, expected: Undisturbed, cluster: Cluster
) -> str:
    """How the command ended; what should not be is noted in `place`."""
    start = time.monotonic()
    try:
        _, said = process.communicate(timeout=HANG_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        place.faults.append(f"still running {HANG_SECONDS:g} s later")
        return "hung"
    finally:
        _end_stopped(cluster)
    place.look_for_orphans()
    if process.returncode == 0:
        place.faults += differences(place.results(), expected.results)
        place.look_for_leftovers()
        return "same result"
    lines = said.splitlines()
    complaints = [line for line in lines if line.startswith("firstlight: ")]
    if kind != "client-killed" and (len(complaints) != 1 or lines[-1:] != complaints or "Traceback" in said):
        place.faults.append(
            f"ended with {process.returncode} after {time.monotonic() - start:.0f} s: {said!r}"
        )
    cluster.mend()
    _finish_again(place, expected, cluster)
    return "killed, then the same result" if kind == "client-killed" else "one line, then the same result"


def _finish_again(place: Place, expected: Undisturbed, cluster: Cluster) -> None:
    """Give the command once more: it must use the runs that it or the workers have, and compute the others."""
    time.sleep(1.0)  # a worker may be writing its run
    finished = {**_written(cluster.runs), **_written(place.root / "runs")}
    place.faults += differences(place.finish(COMMAND_LINE.format(address=cluster.address)), expected.results)
    now = _written(place.root / "runs")
    place.faults += [f"{id} was computed twice" for id, body in finished.items() if now.get(id) != body]


def _written(runs: Path) -> dict[str, bytes]:
    """The file of every finished run, which tells when it was made."""
    return {file.parent.name: file.read_bytes() for file in runs.glob("*/run.json")}


def _end_stopped(cluster: Cluster) -> None:
    """End workers that were stopped: they would stay in the way of the next command."""
    for worker in cluster.workers:
        if worker.poll() is None and psutil.Process(worker.pid).status() == psutil.STATUS_STOPPED:
            end(worker)
