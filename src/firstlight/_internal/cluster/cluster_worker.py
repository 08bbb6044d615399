"""What runs on a worker of a cluster: one task at a time, and what it owes to its client."""

import hashlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from firstlight._internal.environment import environment, user_folder
from firstlight._internal.errors import ClusterProblem
from firstlight._internal.files import whole_folder
from firstlight._internal.untrusted_files import is_regular

if TYPE_CHECKING:
    import numpy as np

    from firstlight._internal.cluster.packed_arrays import Packed

DECIDING = {"firstlight": "firstlight", "code": "source code", "torch": "torch", "python": "Python"}
"""Facts in which a worker must equal the client, in words; differences in others are only reported."""

Report = Callable[[float, str], None]
Runner = Callable[[Callable[[Any], Any], Any, Report], tuple[Any, float]]

_BEAT_SECONDS = 1.0


class StoredByClient(BaseException):
    """The run that a task is about to compute is stored on the client's machine."""


@dataclass(frozen=True)
class Call:
    """What all tasks of one call have in common.

    Parameters
    ----------
    function : callable
        What to apply to a task.
    run : callable
        Applies it, and returns the outcome and its CPU time.
    topic : str
        Where to report how far a task is.
    stored : frozenset of str
        Names of the runs on the client's machine.
    """

    function: Callable[[Any], Any]
    run: Runner
    topic: str
    stored: frozenset[str]


@dataclass
class Finished:
    """What comes back from a worker.

    Parameters
    ----------
    stored : frozenset of str
        Names of the runs on the client's machine.
    outcome : object
        What the function returned.
    seconds : float
        CPU time of the task.
    runs : dict of str to dict of str to bytes
        Files by name of the run folders that the task finished or found on the worker, and the client does not have.
    is_stored : bool
        Whether there is no outcome because the client has the run already.
    """

    stored: frozenset[str] = frozenset()
    outcome: Any = None
    seconds: float = 0.0
    runs: dict[str, dict[str, bytes]] = field(default_factory=dict)
    is_stored: bool = False


# seeds and thread counts belong to the process: threads of one worker take turns
_one_task = threading.Lock()
_current: Finished | None = None  # the task in this process
_last_call: "dict[Packed, Call]" = {}  # most often the next task needs its arrays too


def work(
    ours: Mapping[str, str], call: "Packed", task: "Packed", index: int, arrays: "Mapping[str, np.ndarray]"
) -> Finished:
    """Run one task in this process for a client that has the facts `ours`."""
    if other := difference(facts(), ours):
        raise ClusterProblem(f"A worker has {other}. Install the same on all machines.")
    # functions are unpacked as on a worker too: a store among their data finds its folder on this machine
    with _one_task, assigned() as finished:
        if call not in _last_call:
            _last_call.clear()  # frees its memory first
            _last_call[call] = call.unpack(arrays)
        common = _last_call[call]
        finished.stored = common.stored
        try:
            report = _reporter(common.topic, index)
            finished.outcome, finished.seconds = common.run(common.function, task.unpack(arrays), report)
        except StoredByClient:
            finished.is_stored = True
        finished.stored = frozenset()  # the client knows them
        return finished


@contextmanager
def assigned() -> Iterator[Finished]:
    """Work for a client on another machine inside the block."""
    global _current
    _current = Finished()
    try:
        yield _current
    finally:
        _current = None


def _reporter(topic: str, index: int) -> Report:
    """Tell the client at most once a second how far the task is."""
    last = 0.0

    def report(done: float, note: str) -> None:
        nonlocal last
        if (now := time.monotonic()) - last > _BEAT_SECONDS:
            from distributed import get_worker

            last = now
            get_worker().log_event(topic, [index, done, note])

    return report


def is_worker() -> bool:
    """Whether this process is running a task of a client on a cluster."""
    return _current is not None


def may_fetch() -> bool:
    """Whether this process may fetch from the network; a worker of a cluster only if it was started so."""
    return not is_worker() or os.environ.get("FIRSTLIGHT_WORKERS_FETCH") == "yes"


def runs_folder() -> Path:
    """Where this machine keeps its runs."""
    return user_folder("FIRSTLIGHT_RUNS", leaf="runs")


def stored_runs() -> frozenset[str]:
    """Names of the runs on this machine."""
    folder = runs_folder()
    return frozenset(entry.name for entry in folder.iterdir()) if folder.is_dir() else frozenset()


def leave_to_client(id: str) -> None:
    """Stop the present task if the client has this run; do nothing outside a cluster."""
    if _current is not None and id in _current.stored:
        raise StoredByClient(id)


def hand_over(folder: Path) -> None:
    """Send a finished run folder home with the outcome of the present task; do nothing outside a cluster."""
    if _current is not None and folder.parent == runs_folder() and folder.name not in _current.stored:
        files = filter(is_regular, folder.iterdir())
        _current.runs[folder.name] = {file.name: file.read_bytes() for file in files}


def keep_run_folders(runs: Mapping[str, Mapping[str, bytes]]) -> None:
    """Write run folders that came from a worker among the runs of this machine, unless they are there."""
    for id, files in runs.items():
        if not (folder := runs_folder() / id).exists():
            with whole_folder(folder) as part:
                for name, content in files.items():
                    (part / name).write_bytes(content)


@cache
def facts() -> dict[str, str]:
    """What decides the numbers that this process computes."""
    ours = ("cores", "system", "device")
    here = {name: str(value) for name, value in environment().items() if name not in ours}
    here["python"] = ".".join(here["python"].split(".")[:2])  # pickled functions need the same minor version
    root, source = Path(__file__).parents[2], hashlib.sha256()
    for file in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        source.update(f"{file.relative_to(root).as_posix()}\n".encode())
        source.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return {**here, "code": source.hexdigest()[:8]}


def difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """In which of the deciding facts a worker differs from the client, in words; empty if in none.

    Examples
    --------
    >>> difference({**facts(), "torch": "2.6.0"}, {**facts(), "torch": "2.13.0"})
    'torch 2.6.0 instead of 2.13.0'
    """
    return ", ".join(
        f"{words} {theirs.get(name, 'unknown')} instead of {ours[name]}"
        for name, words in DECIDING.items()
        if theirs.get(name) != ours[name]
    )
