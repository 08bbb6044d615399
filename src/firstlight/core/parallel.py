"""One map for everything that is embarrassingly parallel.

Each task runs on one thread. That is the fastest plan for many small networks on a CPU, and it makes
the result independent of how many run side by side: sums over threads would change the last bits.
"""

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import TypeVar

import joblib
import torch
from threadpoolctl import threadpool_limits

from firstlight.core.errors import InvalidInput
from firstlight.core.files import scratch_folder
from firstlight.core.progress import Bar, is_watched, progress
from firstlight.core.workers import POLL_SECONDS, running, stopping_workers

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")

_sink: Callable[[float, str], None] | None = None
_worker_seconds = 0.0


def cpu_seconds() -> float:
    """CPU time of this process and of all finished tasks it gave to others."""
    return time.process_time() + _worker_seconds


def credit_cpu(seconds: float) -> None:
    """Count CPU time that was spent earlier: what a result costs includes the stored results it reuses."""
    global _worker_seconds
    _worker_seconds += seconds


def report_fraction(done: float, *, note: str = "") -> None:
    """Report the finished fraction of the current task and a short note; costs nothing if no bar is shown."""
    if _sink is not None:
        _sink(done, note)


def default_jobs() -> int:
    """Number of tasks to run in parallel: `FIRSTLIGHT_JOBS`, else the cores this process may use."""
    given = os.environ.get("FIRSTLIGHT_JOBS", "")
    if given:
        if not given.isdigit() or int(given) < 1:
            raise InvalidInput(f"`FIRSTLIGHT_JOBS` must be a whole number of at least 1; got {given!r}.")
        return int(given)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def single_thread() -> Iterator[None]:
    """Use one thread for torch and BLAS inside the block."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with threadpool_limits(1):
            yield
    finally:
        torch.set_num_threads(before)


def map_tasks(
    function: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    *,
    label: str,
    n_jobs: int | None = None,
    show: bool | None = None,
) -> list[Outcome]:
    """Apply `function` to every task, in processes, and return the outcomes in order.

    Parameters
    ----------
    function : callable
        Any callable; closures are fine.
    tasks : sequence of Task
        Arguments, one for each call.
    label : str
        Text before the progress bar.
    n_jobs : int, optional
        Number of processes; 1 runs everything in this one. Default :func:`default_jobs`.
    show : bool, optional
        Force the progress bar on or off.

    Notes
    -----
    Inside ``joblib.parallel_config(backend="dask")`` the same call runs on that cluster.
    """
    elsewhere = "dask" in type(joblib.parallel.get_active_backend()[0]).__name__.lower()
    jobs = -1 if elsewhere else min(n_jobs or default_jobs(), max(len(tasks), 1))
    watched = is_watched() if show is None else show
    with progress(label, total=len(tasks), unit="done", show=watched) as bar:
        if jobs == 1:
            return [_run_here(function, task, index, bar) for index, task in enumerate(tasks)]
        # heartbeats, and the wish to stop, are files, which another machine does not share
        with nullcontext() if elsewhere else scratch_folder() as folder:
            calls = (
                joblib.delayed(_run_there)(function, task, folder, index if watched else None, os.getpid())
                for index, task in enumerate(tasks)
            )
            with (
                _polling(bar, folder) if folder and watched else nullcontext(),
                stopping_workers(folder) if folder else nullcontext(),
            ):
                done: list[tuple[Outcome, float]] = joblib.Parallel(n_jobs=jobs, batch_size=1)(calls)
    global _worker_seconds
    _worker_seconds += sum(seconds for _, seconds in done)
    return [outcome for outcome, _ in done]


@contextmanager
def on_cluster(address: str | None) -> Iterator[None]:
    """Send the tasks of the block to a Dask cluster, such as ``tcp://scheduler:8786``; None runs them here."""
    if address is None:
        yield
        return
    try:
        from distributed import Client
    except ImportError as error:
        raise InvalidInput("A cluster needs Dask: `pip install firstlight[cluster]`.") from error
    try:
        client = Client(address, timeout=10)
    except (OSError, ValueError) as error:
        raise InvalidInput(f"No Dask scheduler answers at {address!r} ({error}).") from error
    with client, joblib.parallel_config(backend="dask"):
        yield


def _run_here(function: Callable[[Task], Outcome], task: Task, index: int, bar: Bar) -> Outcome:
    with _reporting(lambda done, note: bar.update(completed=index + done, note=note)), single_thread():
        outcome = function(task)
    bar.update(completed=index + 1)
    return outcome


def _run_there(
    function: Callable[[Task], Outcome], task: Task, folder: Path | None, index: int | None, parent: int
) -> tuple[Outcome, float]:
    heartbeat = None if folder is None or index is None else folder / str(index)
    last, start = 0.0, cpu_seconds()

    def beat(done: float, note: str) -> None:
        nonlocal last
        if heartbeat and (now := time.monotonic()) - last > POLL_SECONDS:
            last = now
            heartbeat.write_text(f"{done:.4f} {note}")

    with running(folder, parent) if folder else nullcontext(), _reporting(beat), single_thread():
        outcome = function(task)
    if heartbeat:
        heartbeat.write_text("1")
    return outcome, cpu_seconds() - start


@contextmanager
def _reporting(sink: Callable[[float, str], None]) -> Iterator[None]:
    global _sink
    before, _sink = _sink, sink
    try:
        yield
    finally:
        _sink = before


@contextmanager
def _polling(bar: Bar, folder: Path) -> Iterator[None]:
    """Add up the heartbeats that the workers write, twice a second."""
    finished = threading.Event()

    def poll() -> None:
        while not finished.wait(POLL_SECONDS):
            beats = [_beat(file) for file in folder.iterdir() if file.name.isdigit()]
            notes = [note for done, note in beats if note and done < 1]
            bar.update(completed=sum(done for done, _ in beats), note="; ".join(notes[:3]))

    watcher = threading.Thread(target=poll, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        finished.set()
        watcher.join()


def _beat(file: Path) -> tuple[float, str]:
    try:
        done, _, note = file.read_text().partition(" ")
        return float(done), note
    except (OSError, ValueError):  # just being written
        return 0.0, ""
