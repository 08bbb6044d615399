"""Progress bars that appear on a terminal only, so that pipes and logs stay clean."""

import sys
import threading
import time
from collections.abc import Iterator, Mapping
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


def _minutes(seconds: float) -> str:
    return f"{int(seconds) // 60}:{int(seconds) % 60:02d}"


class Plan:
    """Steps of a long command with the seconds that each should take, and the time left, corrected while they run."""

    def __init__(self) -> None:
        self.steps: dict[str, float] = {}
        self.step = ""
        self._done, self._fraction = 0.0, 0.0
        self._begun = self._step_begun = time.monotonic()

    def expect(self, steps: Mapping[str, float]) -> None:
        """Say which steps there are, in their order, and how many seconds each should take."""
        self.steps = dict(steps)
        self._begun = time.monotonic()

    def begin(self, step: str) -> None:
        """Begin a step; those before it are done or left out."""
        names = list(self.steps)
        self._done = sum(self.steps[name] for name in names[: names.index(step)])
        self.step, self._fraction, self._step_begun = step, 0.0, time.monotonic()

    def at(self, fraction: float) -> None:
        """Note how much of the step is done."""
        self._fraction = min(1.0, fraction)

    @property
    def share(self) -> float:
        """How much of the whole is done, between 0 and 1."""
        whole = sum(self.steps.values())
        return (self._done + self._fraction * self.steps.get(self.step, 0.0)) / whole if whole else 0.0

    @property
    def left(self) -> float:
        """Seconds left: what is planned, at the pace of what is done."""
        if not self.step:
            return sum(self.steps.values())
        before, here = self._step_begun - self._begun, time.monotonic() - self._step_begun
        pace = before / self._done if self._done else 1.0
        planned = self.steps[self.step]
        later = sum(self.steps.values()) - self._done - planned
        if self._fraction >= TELLING:  # the step itself tells its pace better than those before it
            rest = here * (1 - self._fraction) / self._fraction
            pace = (before + here) / (self._done + self._fraction * planned)
        else:
            rest = max(pace * planned - here, pace * planned * TELLING)
        return rest + pace * later

    @property
    def words(self) -> str:
        """What is done now and for how long.

        Examples
        --------
        >>> plan = Plan()
        >>> plan.expect({"accuracy": 20.0, "gradients": 60.0})
        >>> plan.begin("accuracy")
        >>> plan.words
        'accuracy, about 1:20 left'
        """
        left = round(self.left)
        return f"{self.step or 'starting'}, {f'about {_minutes(left)} left' if left else 'nearly done'}"


class _Step(Bar):
    """A bar that moves the step of a plan."""

    def __init__(self, plan: Plan, total: float | None) -> None:
        super().__init__()
        self._plan, self._total, self._amount = plan, total, 0.0

    def advance(self, amount: float = 1.0) -> None:
        self.update(completed=self._amount + amount)

    def update(self, *, completed: float | None = None, note: str | None = None) -> None:
        if completed is not None and self._total:
            self._amount = completed
            self._plan.at(completed / self._total)


TELLING = 0.1  # share of a step from which its own pace counts
LINE_SECONDS = 15.0  # between two lines where nobody watches a bar
_plan: Plan | None = None


@contextmanager
def planned(*, show: bool | None = None) -> Iterator[Plan]:
    """Show one bar with the time left for all that the block does; bars inside move it.

    Parameters
    ----------
    show : bool, optional
        By default on a terminal only. True prints a line every 15 seconds where there is no terminal.
    """
    global _plan
    plan = Plan()
    if show is False or (show is None and not is_watched()):
        yield plan
        return
    before, _plan = _plan, plan
    stop = threading.Event()
    tell = _shown_on_a_terminal if is_watched() else _printed_in_lines
    teller = threading.Thread(target=tell, args=(plan, stop), daemon=True)
    teller.start()
    try:
        yield plan
    finally:
        _plan = before
        stop.set()
        teller.join()


def _printed_in_lines(plan: Plan, stop: threading.Event) -> None:
    while not stop.wait(LINE_SECONDS):
        print(visible(f"firstlight: {plan.words}."), file=sys.stderr, flush=True)


def _shown_on_a_terminal(plan: Plan, stop: threading.Event) -> None:
    from rich import progress as rich
    from rich.console import Console

    columns = (rich.BarColumn(), rich.TextColumn("{task.description}", markup=False))
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        task = shown.add_task("", total=1.0)
        while not stop.wait(0.5):
            shown.update(task, completed=plan.share, description=visible(plan.words))


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
    if _plan is not None:
        yield _Step(_plan, total)
        return
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
