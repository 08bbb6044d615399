"""Progress bars that appear on a terminal only, so that pipes and logs stay clean."""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from typing import Any

from firstlight._internal.processes import repeating
from firstlight._internal.safe_text import visible


class Bar:
    """The part of a progress bar that long-running code uses.

    Parameters
    ----------
    show : callable
        Told the position and the short text beside the bar whenever one of them changes.
    """

    def __init__(self, show: Callable[[float, str], object]) -> None:
        self._show, self._completed, self._note = show, 0.0, ""

    def advance(self, amount: float = 1.0) -> None:
        """Move on by `amount` of the total."""
        self.update(completed=self._completed + amount)

    def update(self, *, completed: float | None = None, note: str | None = None) -> None:
        """Set the position or the short text."""
        self._completed = self._completed if completed is None else completed
        self._note = self._note if note is None else note
        self._show(self._completed, self._note)


def is_watched() -> bool:
    """Whether progress is shown: stderr is a terminal."""
    return sys.stderr.isatty()


def tell(name: str, words: str) -> None:
    """Print a finding of a long command, above the bars if there are any."""
    print(visible(f"{name}: {words}"), file=sys.stderr)


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
        whole, planned = sum(self.steps.values()), self.steps.get(self.step, 0.0)
        before, spent = self._step_begun - self._begun, time.monotonic() - self._step_begun
        pace = before / self._done if self._done else 1.0
        if self._fraction >= TELLING:  # the step itself tells its pace better than those before it
            rest = spent * (1 - self._fraction) / self._fraction
            pace = (before + spent) / (self._done + self._fraction * planned)
        else:
            rest = max(pace * planned - spent, pace * planned * TELLING)
        return rest + pace * (whole - self._done - planned)

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
        minutes, seconds = divmod(left := round(self.left), 60)
        return (
            f"{self.step or 'starting'}, {f'about {minutes}:{seconds:02d} left' if left else 'nearly done'}"
        )


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
    plan, watched = Plan(), is_watched() and show is not False
    if not (watched or show):
        yield plan
        return

    def tell_time() -> None:
        if watched:
            bar.update(completed=plan.share, note=plan.words)
        else:
            print(visible(f"firstlight: {plan.words}."), file=sys.stderr, flush=True)

    with progress("", total=1.0, unit="plan", show=watched) as bar:
        before, _plan = _plan, plan
        try:
            with repeating(tell_time, 0.5 if watched else LINE_SECONDS):
                yield plan
        finally:
            _plan = before


_shown: Any = None


@contextmanager
def progress(label: str, *, total: float | None, unit: str = "", show: bool | None = None) -> Iterator[Bar]:
    """Show a bar with the time left while the block runs, below those around it; it disappears afterwards.

    Parameters
    ----------
    label : str
        Text before the bar.
    total : float or None
        Amount of work, or None if unknown.
    unit : str, default ''
        "bytes" shows sizes and speed, "plan" only words; anything else is printed after the count.
    show : bool, optional
        Force the bar on or off; by default it is shown on a terminal only.
    """
    if (plan := _plan) is not None:
        yield Bar(lambda completed, _: plan.at(completed / total) if total else None)
    elif not (is_watched() if show is None else show):
        yield Bar(lambda completed, note: None)
    else:
        with _bars(unit) as shown:
            task = shown.add_task(visible(label), total=total, unit=unit, note="")
            try:
                yield Bar(lambda completed, note: shown.update(task, completed=completed, note=visible(note)))
            finally:
                shown.remove_task(task)


@contextmanager
def _bars(unit: str) -> Iterator[Any]:
    """The bars that are on the terminal already, or new ones."""
    global _shown
    if _shown is not None:
        yield _shown
        return
    from rich import progress as rich  # imported when shown: 100 ms
    from rich.console import Console

    text, bar = partial(rich.TextColumn, markup=False), rich.BarColumn()
    label, count, note = text("{task.description}"), text("{task.fields[unit]}"), text("{task.fields[note]}")
    left = rich.TimeRemainingColumn(elapsed_when_finished=True)
    columns = {
        "plan": [bar, note],
        "bytes": [label, bar, rich.DownloadColumn(), rich.TransferSpeedColumn(), left],
    }.get(unit, [label, bar, rich.MofNCompleteColumn(), count, left, note])
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as _shown:
        try:
            yield _shown
        finally:
            _shown = None
