"""Signals that ask a command to stop, and worker processes: they end with the command that started them.

A signal is heeded between two steps, not within one; workers save their work first.
"""

import os
import signal
import threading
import time
from _thread import start_new_thread
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from types import FrameType

POLL_SECONDS = 0.5
GRACE_SECONDS = 20.0  # a step of the largest networks, and a checkpoint of them

_STOP, _RUNNING = "stop", "running-"
_watched_parents: set[int] = set()
_folder: Path | None = None  # where the parent of the running task writes that it wants to stop


_held: dict[int, list[Callable[[], object]]] = {}  # signals that the running blocks hold back


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM; it stops as it does at Ctrl-C."""


def heed_termination() -> None:
    """Stop at SIGTERM as at Ctrl-C, with everything put away, instead of dying on the spot."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def _signals_to(decide: Callable[[Callable[[], object]], object]) -> Iterator[None]:
    """Ask a function in the block what to do at Ctrl-C and SIGTERM; it is given what they would have done.

    Outside the main thread, and for signals that Python does not handle, nothing is asked.
    """
    before: dict[signal.Signals, Callable[[int, FrameType | None], object]] = {}
    if threading.current_thread() is threading.main_thread():
        for asking in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(asking)
            if callable(handler):
                before[asking] = handler
                signal.signal(
                    asking, lambda number, _: decide(partial(before[signal.Signals(number)], number, None))
                )
    try:
        yield
    finally:
        for asking, handler in before.items():
            signal.signal(asking, handler)


@contextmanager
def postponed_interrupts() -> Iterator[Callable[[], Callable[[], object] | None]]:
    """Hold back Ctrl-C and SIGTERM in the block; the second one acts at once.

    Yields a function that returns None, or, once a signal came, what it would have done.
    """
    came: list[Callable[[], object]] = []
    _held[id(came)] = came

    def postpone(act: Callable[[], object]) -> None:
        if came:
            act()
        came.append(act)

    try:
        with _signals_to(postpone):
            yield lambda: came[0] if came else None
    finally:
        del _held[id(came)]


def is_asked() -> bool:
    """Whether a signal is held back: passing on the same wish would be a second one, which acts at once."""
    return any(list(_held.values()))


@contextmanager
def stopping_workers(folder: Path) -> Iterator[None]:
    """Pass Ctrl-C and SIGTERM on to the workers in the block; they may save before the signal acts here.

    The second signal acts at once.

    Parameters
    ----------
    folder : Path
        Temporary folder that the workers know, see :func:`running`.
    """
    asked: list[bool] = []

    def ask(act: Callable[[], object]) -> None:
        if not asked:
            asked.append(True)
            (folder / _STOP).touch()
            limit = time.monotonic() + GRACE_SECONDS
            while list(folder.glob(f"{_RUNNING}*")) and time.monotonic() < limit:
                time.sleep(0.05)
        act()

    with _signals_to(ask):
        yield


@contextmanager
def running(folder: Path, parent: int) -> Iterator[None]:
    """Run a task in the block, in a worker: it ends with its parent, and is interrupted when that wants to stop.

    Parameters
    ----------
    folder : Path
        The folder that :func:`stopping_workers` was given.
    parent : int
        Process that started the worker.
    """
    global _folder
    end_with(parent)
    if (folder / _STOP).exists():  # waited its turn meanwhile
        raise Terminated
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGTERM) if is_main else None
    if is_main:
        heed_termination()
    mark = folder / f"{_RUNNING}{os.getpid()}"
    mark.touch()
    _folder = folder
    try:
        yield
    except KeyboardInterrupt:
        (folder / _STOP).touch()  # from a terminal, before the parent came to it: nothing new is to begin
        raise
    finally:
        _folder = None
        if is_main:
            signal.signal(signal.SIGTERM, before)
        mark.unlink(missing_ok=True)


@contextmanager
def repeating(act: Callable[[], object], seconds: float) -> Iterator[None]:
    """Call a function every so many seconds while the block runs, from a thread; what fails may succeed later."""
    over, turn = threading.Event(), threading.Lock()

    def repeat() -> None:
        with suppress(MemoryError):
            while not over.wait(seconds):
                with turn, suppress(OSError):
                    if not over.is_set():
                        act()

    # threading.Thread would wait for ever for a thread that has no memory to begin with
    start_new_thread(repeat, ())
    try:
        yield
    finally:
        with turn:
            over.set()


def end_with(parent: int) -> None:
    """End this process soon after its parent, which may be killed without a chance to end it."""
    if parent in _watched_parents or os.name == "nt":
        return
    _watched_parents.add(parent)

    def watch() -> None:
        told: Path | None = None
        while os.getppid() == parent:
            folder = _folder
            if folder is not None and folder != told and (folder / _STOP).exists():
                told = folder
                if not is_asked():  # by a terminal, which sends Ctrl-C to the workers too
                    os.kill(os.getpid(), signal.SIGTERM)  # handled in the main thread, where the task runs
            time.sleep(POLL_SECONDS)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
