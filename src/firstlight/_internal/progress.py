"""Progress bars that appear on a terminal only, so that pipes and logs stay clean."""

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from firstlight._internal.safe_text import visible

if TYPE_CHECKING:
    from rich import progress as rich_progress
    from rich.console import RenderableType


class Bar:
    """The part of a progress bar that long-running code uses; without a task it shows nothing."""

    def __init__(self, shown: "rich_progress.Progress | None" = None, task: Any = None) -> None:
        self._shown, self._task = shown, task

    def advance(self, amount: float = 1.0) -> None:
        """Move on by `amount` of the total."""
        if self._shown is not None:
            self._shown.advance(self._task, amount)

    def update(self, *, completed: float | None = None, note: str | None = None) -> None:
        """Set the position or the short text beside the bar."""
        if self._shown is not None:
            fields = {} if note is None else {"note": visible(note)}
            self._shown.update(self._task, completed=completed, **fields)  # type: ignore[arg-type]


def is_watched() -> bool:
    """Whether progress is shown: stderr is a terminal."""
    return sys.stderr.isatty()


class Screen:
    """Findings of a long command so far, its progress bars, and the time passed.

    On a terminal everything is redrawn in place, with the bars below; elsewhere every finding is printed as
    one line.
    """

    def __init__(self, title: str, *, show: bool) -> None:
        self.title, self.start = title, time.monotonic()
        self.rows: list[tuple[str, str]] = []
        self.is_done = False
        self.bars: rich_progress.Progress | None = None
        if show:
            from rich import progress as shown

            self.bars = shown.Progress(*_columns(shown, ""), auto_refresh=False)

    def add(self, name: str, words: str) -> None:
        """Add a finding."""
        self.rows.append((name, words))
        if self.bars is None:
            print(visible(f"{name}: {words}"), file=sys.stderr)

    @property
    def passed(self) -> str:
        """Time since the command began."""
        seconds = int(time.monotonic() - self.start)
        return f"{'done in ' if self.is_done else ''}{seconds // 60}:{seconds % 60:02d}"

    def __rich__(self) -> "RenderableType":
        from rich.console import Group
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
        for name, words in self.rows:
            table.add_row(Text(visible(name), style="bold"), Text(visible(words)))
        head = Text.assemble((visible(self.title), "bold"), f"  {self.passed}")
        return Group(head, table, *([self.bars] if self.bars is not None else []))


_screen: Screen | None = None


@contextmanager
def screen(title: str, *, show: bool | None = None) -> Iterator[Screen]:
    """Show findings and bars of a long command while the block runs; the findings remain.

    Parameters
    ----------
    title : str
        Heading of the view.
    show : bool, optional
        Force the live view on or off; by default it is shown on a terminal only.
    """
    global _screen
    shown = Screen(title, show=is_watched() if show is None else show)
    if shown.bars is None:
        yield shown
        return
    from rich.console import Console
    from rich.live import Live

    before, _screen = _screen, shown
    try:
        with Live(shown, console=Console(stderr=True), refresh_per_second=4):
            yield shown
            shown.is_done = True
    finally:
        _screen = before


@contextmanager
def progress(label: str, *, total: float | None, unit: str = "", show: bool | None = None) -> Iterator[Bar]:
    """Show a bar with the time left while the block runs; it disappears afterwards.

    Parameters
    ----------
    label : str
        Text before the bar.
    total : float or None
        Amount of work, or None if unknown.
    unit : str, default ''
        "bytes" shows sizes and speed; anything else is printed after the count.
    show : bool, optional
        Force the bar on or off; by default it is shown on a terminal only.
    """
    if not (is_watched() if show is None else show):
        yield Bar()
        return
    if _screen is not None and _screen.bars is not None:
        with _bar(_screen.bars, label, total) as bar:
            yield bar
        return
    from rich import progress as rich  # imported when shown: 100 ms
    from rich.console import Console

    with rich.Progress(
        *_columns(rich, unit), console=Console(stderr=True), transient=True
    ) as shown, _bar(shown, label, total) as bar:  # fmt: skip
        yield bar


def _columns(shown: ModuleType, unit: str) -> "list[rich_progress.ProgressColumn]":
    amount = (
        [shown.DownloadColumn(), shown.TransferSpeedColumn()]
        if unit == "bytes"
        else [shown.MofNCompleteColumn(), shown.TextColumn(unit)]
        if unit
        else [shown.TaskProgressColumn()]
    )
    return [
        shown.TextColumn("{task.description}", markup=False),
        shown.BarColumn(),
        *amount,
        shown.TimeRemainingColumn(elapsed_when_finished=True),
        shown.TextColumn("{task.fields[note]}", style="dim", markup=False),
    ]


@contextmanager
def _bar(shown: "rich_progress.Progress", label: str, total: float | None) -> Iterator[Bar]:
    """One bar, removed at the end."""
    task = shown.add_task(visible(label), total=total, note="")
    try:
        yield Bar(shown, task)
    finally:
        shown.remove_task(task)
