"""Progress bars that stay silent where nobody looks: pipes, notebooks' logs, quick jobs."""

import sys
from collections.abc import Iterable, Iterator, Sized
from contextlib import contextmanager
from typing import Protocol, TypeVar, runtime_checkable

T = TypeVar("T")


@runtime_checkable
class Bar(Protocol):
    """What long-running code needs to know of a progress bar."""

    def advance(self, amount: float = 1.0) -> None:
        """Move on by `amount` of the total."""

    def update(self, *, completed: float | None = None, note: str | None = None) -> None:
        """Set the position or the short text beside the bar."""


class _Silent:
    def advance(self, amount: float = 1.0) -> None:
        pass

    def update(self, *, completed: float | None = None, note: str | None = None) -> None:
        pass


def is_watched() -> bool:
    """Whether somebody sees the terminal."""
    return sys.stderr.isatty()


@contextmanager
def progress(label: str, *, total: float | None, unit: str = "", show: bool | None = None) -> Iterator[Bar]:
    """Show a bar with the time left while the block runs; nothing remains of it afterwards.

    Parameters
    ----------
    label : what is going on.
    total : the amount of work, or None if unknown.
    unit : "bytes" shows sizes and speed; anything else is printed after the count.
    show : True or False to force it; by default only on a terminal.
    """
    if not (is_watched() if show is None else show):
        yield _Silent()
        return
    from rich import progress as rich_progress  # imported when shown: 100 ms
    from rich.console import Console

    amount: list[rich_progress.ProgressColumn] = (
        [rich_progress.DownloadColumn(), rich_progress.TransferSpeedColumn()]
        if unit == "bytes"
        else [rich_progress.MofNCompleteColumn(), rich_progress.TextColumn(unit)]
        if unit
        else [rich_progress.TaskProgressColumn()]
    )
    with rich_progress.Progress(
        rich_progress.TextColumn("{task.description}"),
        rich_progress.BarColumn(),
        *amount,
        rich_progress.TimeRemainingColumn(elapsed_when_finished=True),
        rich_progress.TextColumn("[dim]{task.fields[note]}"),
        console=Console(stderr=True),
        transient=True,
    ) as shown:
        task = shown.add_task(label, total=total, note="")

        class _Shown:
            def advance(self, amount: float = 1.0) -> None:
                shown.advance(task, amount)

            def update(self, *, completed: float | None = None, note: str | None = None) -> None:
                fields = {} if note is None else {"note": note}
                shown.update(task, completed=completed, **fields)  # type: ignore[arg-type]

        yield _Shown()


def track(
    items: Iterable[T], label: str, *, total: int | None = None, show: bool | None = None
) -> Iterator[T]:
    """Iterate over `items` behind a progress bar."""
    if total is None and isinstance(items, Sized):
        total = len(items)
    with progress(label, total=total, unit="done", show=show) as bar:
        for item in items:
            yield item
            bar.advance()
