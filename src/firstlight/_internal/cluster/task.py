"""What runs on a worker: one task at a time, with the data that was sent before it."""

import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from firstlight._internal.cluster.shipping import FlatArray, Packed
from firstlight._internal.cluster.worker import RunFiles, StoredByClient, assigned, difference, facts
from firstlight._internal.errors import ClusterProblem

_BEAT_SECONDS = 1.0

Report = Callable[[float, str], None]
Runner = Callable[[Callable[[Any], Any], Any, Report], tuple[Any, float]]


@dataclass(frozen=True)
class Order:
    """What a worker is told beside the function and the task.

    Parameters
    ----------
    run : callable
        Applies a function to a task, and returns the outcome and its CPU time.
    topic : str
        Where to report how far a task is; empty if nobody watches.
    facts : dict of str to str
        What decides the client's numbers.
    stored : frozenset of str
        Names of the runs on the client's machine.
    """

    run: Runner
    topic: str
    facts: dict[str, str]
    stored: frozenset[str]


@dataclass(frozen=True)
class Finished:
    """What comes back from a worker.

    Parameters
    ----------
    outcome : object
        What the function returned.
    seconds : float
        CPU time of the task.
    runs : tuple of RunFiles
        Run folders that the task finished or found on the worker, and the client does not have.
    is_stored : bool
        Whether there is no outcome because the client has the run already.
    """

    outcome: Any
    seconds: float
    runs: tuple[RunFiles, ...]
    is_stored: bool = False


# seeds and thread counts belong to the process: threads of one worker take turns
_one_task = threading.Lock()
# the last function with its arrays: most often the next task needs it too
_function: tuple[str, Any] = ("", None)


def work(
    order: Order, function: Packed, task: Packed, index: int, arrays: Mapping[str, FlatArray]
) -> Finished:
    """Run one task in this process."""
    if other := difference(facts(), order.facts):
        raise ClusterProblem(f"A worker has {other}. Install the same on all machines.")
    with _one_task, assigned(order.stored) as assignment:
        try:
            report = _reporter(order.topic, index)
            outcome, seconds = order.run(_restored(function, arrays), task.unpack(arrays), report)
            return Finished(outcome, seconds, tuple(assignment.runs))
        except StoredByClient:
            return Finished(None, 0.0, tuple(assignment.runs), is_stored=True)


def answer() -> dict[str, str]:
    """What a worker says of itself when a client connects."""
    return facts()


def _restored(function: Packed, arrays: Mapping[str, FlatArray]) -> Any:
    global _function
    if _function[0] != function.name:
        _function = ("", None)  # frees the memory of the last one first
        _function = (function.name, function.unpack(arrays))
    return _function[1]


def _reporter(topic: str, index: int) -> Report:
    """Tell the client at most once a second how far the task is."""
    if not topic:
        return lambda done, note: None
    from distributed import get_worker

    worker, last = get_worker(), 0.0

    def report(done: float, note: str) -> None:
        nonlocal last
        if (now := time.monotonic()) - last > _BEAT_SECONDS:
            last = now
            worker.log_event(topic, [index, done, note])

    return report
