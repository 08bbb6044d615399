"""One map for everything that is embarrassingly parallel.

Each task runs on one thread. That is the fastest plan for many small networks on a CPU, and it makes
the result independent of how many run side by side: sums over threads would change the last bits.
"""

import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, runtime_checkable

import torch
from threadpoolctl import threadpool_limits

from firstlight._internal.cluster.cluster_worker import is_worker, keep_run_folders
from firstlight._internal.devices import chosen_device, computing_on
from firstlight._internal.errors import InvalidInput, WorkerLost
from firstlight._internal.files import scratch_folder
from firstlight._internal.processes import POLL_SECONDS, end_with, repeating, running, stopping_workers
from firstlight._internal.progress import Bar, is_watched, progress

if TYPE_CHECKING:
    from firstlight._internal.cluster.cluster import Cluster

Task = TypeVar("Task")
Outcome = TypeVar("Outcome")


@runtime_checkable
class Keeper(Protocol):
    """Somewhere to keep the outcomes of finished tasks, so that a killed process need not repeat them."""

    def get(self, key: str) -> tuple[Any, float] | None:
        """The outcome kept under a key and the CPU seconds it cost, or None."""

    def put(self, key: str, outcome: Any, seconds: float) -> None:
        """Keep an outcome, or leave it if it cannot be kept."""


@dataclass
class Executor:
    """Where the tasks of this process run, who hears how far they are, and what they cost elsewhere.

    There is one, `executor`; the blocks of this module change it and put it back.

    Parameters
    ----------
    cluster : Cluster, optional
        Takes the tasks; without it they run on this machine.
    keeper : Keeper, optional
        Keeps the outcomes of finished tasks.
    n_calls : int, default 0
        Calls so far whose outcomes are kept: their order, which settings and code decide, names the tasks.
    report : callable, optional
        Told the finished fraction of the task that runs now, and a note.
    seconds : float, default 0
        CPU time of finished tasks that ran in other processes, and of stored results that were used again.
    """

    cluster: "Cluster | None" = None
    keeper: Keeper | None = None
    n_calls: int = 0
    report: Callable[[float, str], None] | None = None
    seconds: float = 0.0

    @contextmanager
    def having(self, **changes: Any) -> Iterator[None]:
        """Have other attributes in the block."""
        before = {name: getattr(self, name) for name in changes}
        vars(self).update(changes)
        try:
            yield
        finally:
            vars(self).update(before)


executor = Executor()


def cpu_seconds() -> float:
    """CPU time of this process and of all finished tasks it gave to others."""
    return time.process_time() + executor.seconds


def credit_cpu(seconds: float) -> None:
    """Count CPU time that was spent earlier: what a result costs includes the stored results it reuses."""
    executor.seconds += seconds


def report_fraction(done: float, *, note: str = "") -> None:
    """Report the finished fraction of the current task and a short note; costs nothing if no bar is shown."""
    if executor.report is not None:
        executor.report(done, note)


def default_jobs() -> int:
    """Number of tasks to run in parallel: `FIRSTLIGHT_JOBS`, else the cores this process may use.

    Inside a task on a cluster it is 1: the other cores of that machine have workers of their own. On another device
    than the CPU it is 1 too, unless `FIRSTLIGHT_JOBS` is given: processes would share its memory.
    """
    if is_worker():
        return 1
    given = os.environ.get("FIRSTLIGHT_JOBS", "")
    if given:
        if not given.isdigit() or int(given) < 1:
            raise InvalidInput(f"`FIRSTLIGHT_JOBS` must be a whole number of at least 1; got {given!r}.")
        return int(given)
    device = chosen_device()
    if device is not None and device.type != "cpu":
        return 1
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


@contextmanager
def single_thread() -> Iterator[None]:
    """Use one thread for torch and BLAS inside the block."""
    with single_torch_thread(), threadpool_limits(1):
        yield


@contextmanager
def single_torch_thread() -> Iterator[None]:
    """Use one thread for torch inside the block; asks no other library, which takes milliseconds."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
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
    Inside :func:`on_cluster` the same call runs on that cluster, whatever `n_jobs`.
    """
    outcomes = dict(finished_tasks(function, tasks, label=label, n_jobs=n_jobs, show=show))
    return [outcomes[index] for index in range(len(tasks))]


def finished_tasks(
    function: Callable[[Task], Outcome],
    tasks: Sequence[Task],
    *,
    label: str,
    n_jobs: int | None = None,
    show: bool | None = None,
) -> Iterator[tuple[int, Outcome]]:
    """Yield index and outcome of every task as soon as it is done; arguments as for :func:`map_tasks`."""
    if executor.keeper is not None:
        yield from _kept_tasks(executor.keeper, function, tasks, label=label, n_jobs=n_jobs, show=show)
        return
    watched = is_watched() if show is None else show
    function = _on_this_device(function)
    jobs = min(n_jobs or default_jobs(), max(len(tasks), 1))
    with progress(label, total=len(tasks), unit="done", show=watched) as bar:
        if executor.cluster is not None:
            yield from _on_cluster(executor.cluster, function, tasks, bar if watched else None)
        elif jobs == 1 or is_worker():
            for index, task in enumerate(tasks):
                yield index, _run_here(function, task, index, bar)
        else:
            yield from _in_processes(function, tasks, jobs, bar if watched else None)


def _on_this_device(function: Callable[[Task], Outcome]) -> Callable[[Task], Outcome]:
    """Let a function compute on the device of this process, wherever it is called."""
    device = chosen_device()
    if device is None or device.type == "cpu":
        return function
    kind = device.type

    def compute(task: Task) -> Outcome:
        with computing_on(kind):
            return function(task)

    return compute


def _kept_tasks(
    keeper: Keeper, function: Callable[[Task], Outcome], tasks: Sequence[Task], *, label: str, **options: Any
) -> Iterator[tuple[int, Outcome]]:
    """Yield what is kept, then run the rest and keep it. Tasks within these tasks are not kept by themselves."""
    executor.n_calls += 1
    call = f"{executor.n_calls:03d}-{''.join(c if c.isalnum() else '-' for c in label)}"
    missing = []
    for index in range(len(tasks)):
        if (found := keeper.get(f"{call}-{index}")) is None:
            missing.append(index)
        else:
            credit_cpu(found[1])
            yield index, found[0]
    start = cpu_seconds()
    with executor.having(keeper=None):
        for place, outcome in finished_tasks(function, [tasks[i] for i in missing], label=label, **options):
            keeper.put(f"{call}-{missing[place]}", outcome, cpu_seconds() - start)
            start = cpu_seconds()
            yield missing[place], outcome


@contextmanager
def keeping(keeper: Keeper) -> Iterator[None]:
    """Keep the outcome of every task of the block, and take those that an earlier try left there.

    Parameters
    ----------
    keeper : Keeper
        Must be the same only for the same computation: tasks are known by the order of the calls.
    """
    with executor.having(keeper=keeper, n_calls=0):
        yield


def _in_processes(
    function: Callable[[Task], Outcome], tasks: Sequence[Task], jobs: int, bar: Bar | None
) -> Iterator[tuple[int, Outcome]]:
    import joblib  # when processes are needed: half a second

    # heartbeats, and the wish to stop, are files
    with scratch_folder() as folder:
        calls = (
            joblib.delayed(_run_there)(function, task, index, folder, bar is not None, os.getpid())
            for index, task in enumerate(tasks)
        )
        # workers watch their parent before they import what the tasks need, which takes seconds
        watching = {"initializer": end_with, "initargs": (os.getpid(),)}
        parallel = joblib.Parallel(n_jobs=jobs, batch_size=1, return_as="generator_unordered", **watching)
        polling = repeating(partial(_add_up, bar, folder), POLL_SECONDS) if bar else nullcontext()
        with polling, stopping_workers(folder):
            try:
                for index, outcome, seconds in parallel(calls):
                    credit_cpu(seconds)
                    yield index, outcome
            except BrokenProcessPool as error:
                raise WorkerLost(
                    "All worker processes must live until their tasks are done; one ended before, as happens when "
                    f"memory runs out. Finished runs are kept. Set FIRSTLIGHT_JOBS to less than {jobs} and try again."
                ) from error


def _on_cluster(
    cluster: "Cluster", function: Callable[[Task], Outcome], tasks: Sequence[Task], bar: Bar | None
) -> Iterator[tuple[int, Outcome]]:
    fractions: dict[int, float] = {}

    def listen(index: int, done: float, note: str) -> None:
        fractions[index] = max(done, fractions.get(index, 0.0))
        if bar is not None:
            bar.update(completed=sum(list(fractions.values())), note=note)

    for index, finished in cluster.run(function, tasks, run=_run_timed, listen=listen):
        keep_run_folders(finished.runs)
        outcome = finished.outcome
        if finished.is_stored:  # on this machine: the same function finds it here
            with single_thread():
                outcome = function(tasks[index])
        credit_cpu(finished.seconds)
        listen(index, 1.0, "")
        yield index, outcome


@contextmanager
def on_cluster(address: str | None) -> Iterator[int | None]:
    """Send the tasks of the block to a Dask cluster, and yield the number of its workers; None runs them here.

    Parameters
    ----------
    address : str or None
        ``tcp://host:port`` or ``tls://host:port`` of a scheduler, the path of its scheduler file, or ``local:N`` for N
        worker processes of this machine.

    Notes
    -----
    Each worker is one process that runs one task at a time on one thread, so outcomes have the same bits as here.
    A worker with another firstlight, torch or Python is refused, one with another processor is reported.
    """
    if address is None:
        yield None
        return
    from firstlight._internal.cluster.cluster import connected

    with connected(address) as cluster, executor.having(cluster=cluster):
        yield cluster.cores


def cluster_cores() -> int | None:
    """Number of workers of the cluster that takes the tasks; None if they run on this machine."""
    return None if executor.cluster is None else executor.cluster.cores


def _run_here(function: Callable[[Task], Outcome], task: Task, index: int, bar: Bar) -> Outcome:
    def report(done: float, note: str) -> None:
        bar.update(completed=index + done, note=note)

    with executor.having(report=report), single_thread():
        outcome = function(task)
    bar.update(completed=index + 1)
    return outcome


def _run_timed(
    function: Callable[[Task], Outcome], task: Task, report: Callable[[float, str], None]
) -> tuple[Outcome, float]:
    start = cpu_seconds()
    with executor.having(report=report), single_thread():
        outcome = function(task)
    return outcome, cpu_seconds() - start


def _run_there(
    function: Callable[[Task], Outcome], task: Task, index: int, folder: Path, watched: bool, parent: int
) -> tuple[int, Outcome, float]:
    heartbeat = folder / str(index) if watched else None
    last = 0.0

    def beat(done: float, note: str) -> None:
        nonlocal last
        if heartbeat and (now := time.monotonic()) - last > POLL_SECONDS:
            last = now
            heartbeat.write_text(f"{done:.4f} {note}")

    with running(folder, parent):
        outcome, seconds = _run_timed(function, task, beat)
    if heartbeat:
        heartbeat.write_text("1")
    return index, outcome, seconds


def _add_up(bar: Bar, folder: Path) -> None:
    """Show the sum of the heartbeats that the workers write."""
    beats = [_beat(file) for file in folder.iterdir() if file.name.isdigit()]
    notes = [note for done, note in beats if note and done < 1]
    bar.update(completed=sum(done for done, _ in beats), note="; ".join(notes[:3]))


def _beat(file: Path) -> tuple[float, str]:
    try:
        done, _, note = file.read_text().partition(" ")
        return float(done), note
    except (OSError, ValueError):  # just being written
        return 0.0, ""
