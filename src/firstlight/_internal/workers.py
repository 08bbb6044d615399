"""Worker processes: they end with the command that started them, and save their work when it is asked to stop."""

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from firstlight._internal.interrupts import Terminated, heed_termination, is_asked

POLL_SECONDS = 0.5
GRACE_SECONDS = 20.0  # a step of the largest networks, and a checkpoint of them

_STOP, _RUNNING = "stop", "running-"
_watched_parents: set[int] = set()
_folder: Path | None = None  # where the parent of the running task writes that it wants to stop


@contextmanager
def stopping_workers(folder: Path) -> Iterator[None]:
    """Pass Ctrl-C and SIGTERM on to the workers in the block; they may save before the signal acts here.

    The second signal acts at once.

    Parameters
    ----------
    folder : Path
        Temporary folder that the workers know, see :func:`running`.
    """
    before: dict[int, Callable[[int, FrameType | None], object]] = {}
    asked = False

    def ask(number: int, frame: FrameType | None) -> None:
        nonlocal asked
        if not asked:
            asked = True
            (folder / _STOP).touch()
            limit = time.monotonic() + GRACE_SECONDS
            while list(folder.glob(f"{_RUNNING}*")) and time.monotonic() < limit:
                time.sleep(0.05)
        before[number](number, frame)

    if threading.current_thread() is threading.main_thread():
        for one in (signal.SIGINT, signal.SIGTERM):
            handler = signal.getsignal(one)
            if callable(handler):
                before[one] = handler
                signal.signal(one, ask)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


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
