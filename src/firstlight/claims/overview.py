"""The figure of a study that does not draw one of its own: every judged number with its interval."""

from collections.abc import Collection, Iterable

from firstlight.claims.evidence import Estimate, Evidence
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure

WIDEST = 1e3  # intervals of a single seed are infinite; figures leave them out


def overview(
    evidence: Evidence, names: Iterable[str], *, nulls: Collection[str], title: str, unit: str = ""
) -> Figure:
    """Draw estimates with their intervals, one column per number, those of the null apart.

    Parameters
    ----------
    evidence : Evidence
        Measurements over seeds.
    names : iterable of str
        Which of them.
    nulls : collection of str
        Those that belong to the null.
    title : str
        Of the figure.
    unit : str, optional
        What the vertical axis says.
    """
    names = list(names)
    estimates = evidence.estimates(names)
    is_null = [_base(label, names) in nulls for label in estimates]
    series = [
        _dots("measured, with 95 % interval", estimates, [not flag for flag in is_null], role="trained"),
        _dots("null, with 95 % interval", estimates, is_null, role="null"),
    ]
    shown = [one for one, used in zip(series, (not all(is_null), any(is_null)), strict=True) if used]
    return dots(
        list(estimates),
        shown,
        title=title,
        alt=f"{title} Measured numbers with their intervals.",
        y=unit or "value",
    )


def _base(label: str, names: Iterable[str]) -> str:
    """The measurement that an entry of the estimates belongs to."""
    return max(
        (name for name in names if label == name or label.startswith(f"{name}, ")), key=len, default=""
    )


def _dots(name: str, estimates: dict[str, Estimate], use: list[bool], *, role: str) -> Dots:
    nan = float("nan")
    rows = [
        (e.mean, *((e.low, e.high) if e.high - e.low < WIDEST else (e.mean, e.mean)))
        if used
        else (nan, nan, nan)
        for e, used in zip(estimates.values(), use, strict=True)
    ]
    middle, low, high = (tuple(column) for column in zip(*rows, strict=True))
    return Dots(name=name, middle=middle, low=low, high=high, role=role)
