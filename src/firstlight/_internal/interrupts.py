"""Signals that ask a command to stop: heeded between two steps, not within one."""

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType

_ASKING = (signal.SIGINT, signal.SIGTERM)
_held: dict[int, list[Callable[[], None]]] = {}  # signals that the running blocks hold back


class Terminated(KeyboardInterrupt):
    """The process was asked to end by SIGTERM; it stops as it does at Ctrl-C."""


def heed_termination() -> None:
    """Stop at SIGTERM as at Ctrl-C, with everything put away, instead of dying on the spot."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, stop)


@contextmanager
def postponed_interrupts() -> Iterator[Callable[[], Callable[[], None] | None]]:
    """Hold back Ctrl-C and SIGTERM in the block; the second one acts at once.

    Yields a function that returns None, or, once a signal came, what it would have done. Outside the main thread,
    and for signals that Python does not handle, nothing is held back.
    """
    came: list[Callable[[], None]] = []
    _held[id(came)] = came
    before: dict[signal.Signals, Callable[[int, FrameType | None], object]] = {}

    def postpone(number: int, frame: FrameType | None) -> None:
        act = before[signal.Signals(number)]
        if came:
            act(number, frame)
        came.append(lambda: (act(number, None), None)[1])

    if threading.current_thread() is threading.main_thread():
        for one in _ASKING:
            handler = signal.getsignal(one)
            if callable(handler):
                before[one] = handler
                signal.signal(one, postpone)
    try:
        yield lambda: came[0] if came else None
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
        del _held[id(came)]


def is_asked() -> bool:
    """Whether a signal is held back: passing on the same wish would be a second one, which acts at once."""
    return any(list(_held.values()))
