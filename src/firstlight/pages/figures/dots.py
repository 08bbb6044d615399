"""Numbers by name: one column or row per layer or network, with the range behind each mean."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from jaxtyping import Float
from torch import Tensor

from firstlight._internal.result import Result
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.style import ROLES, layout, with_alpha

MOST_NAMES = 32  # that are legible as rows; more are numbered
LETTERS = 62  # that fit below all columns together


@dataclass(frozen=True, kw_only=True)
class Dots(Result):
    """Values of one kind over all names.

    Parameters
    ----------
    name : str
        As the reader should see it.
    middle, low, high : tuple of float
        One each per name.
    role : str, default 'trained'
        Decides the colour, see :data:`firstlight.pages.figures.style.ROLES`.
    shift : float, default 0.0
        Sideways from the middle of its column, whose width is 1, so that two series stand side by side.
    """

    name: str
    middle: tuple[float, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    role: str = "trained"
    shift: float = 0.0

    @classmethod
    def of(
        cls, name: str, values: Sequence[Float[Tensor, " _"]], *, role: str = "trained", shift: float = 0.0
    ) -> "Dots":
        """Mean and range of several values per name.

        Examples
        --------
        >>> import torch
        >>> Dots.of("a", [torch.tensor([1.0, 3.0])]).middle
        (2.0,)
        """
        return cls(
            name=name,
            middle=tuple(float(v.mean()) for v in values),
            low=tuple(float(v.min()) for v in values),
            high=tuple(float(v.max()) for v in values),
            role=role,
            shift=shift,
        )


def dots(
    names: Sequence[str],
    series: Sequence[Dots],
    *,
    title: str,
    alt: str,
    y: str,
    x: str = "",
    height: int = 400,
    log_y: bool = False,
) -> Figure:
    """Draw one column per name: nulls as grey bands, measurements as points with their range.

    Names that do not fit beside each other become rows, the first on top. More than 32 are numbered columns.

    Parameters
    ----------
    names : sequence of str
        In their order; shortened on the axis if long. More than 32 are numbered there, from 1, and named under the
        pointer and in the table.
    series : sequence of Dots
        What to draw.
    title, alt : str
        See :class:`Figure`.
    x, y : str
        Axis titles with units.
    height : int, default 400
        In pixels; rows have a height of their own.
    log_y : bool, default False
        A logarithmic axis of whole decades for the values. Zeros cannot be drawn there.
    """
    places = list(range(len(names)))
    data: list[dict[str, Any]] = []
    table: dict[str, list[Any]] = {x or "name": list(names)}
    if len(names) > MOST_NAMES:
        table = {"number": [place + 1 for place in places], **table}
    known = [abs(high) for one in series for high in one.high if math.isfinite(high)]
    hair = 0.012 * max(known, default=1.0)
    for one in sorted(series, key=lambda s: s.role != "null"):
        at = [place + one.shift for place in places]
        data.append(_bars(one, at, names, hair) if one.role == "null" else _points(one, at, names))
    for one in series:
        table[one.name] = list(one.middle)
        if one.low != one.high:
            table[f"{one.name}, lowest"], table[f"{one.name}, highest"] = list(one.low), list(one.high)
    frame = layout(x=x, y=y, height=height)
    few = len(names) <= MOST_NAMES
    every = 1 if few else next(step for step in (2, 5, 10, 20, 50, 100, 10**9) if len(names) <= 14 * step)
    shown = places if few else [0, *places[every - 1 :: every]]
    frame["xaxis"] |= {
        "tickvals": shown,
        "ticktext": [_short(names[place]) if few else str(place + 1) for place in shown],
        "grid": False,
        "range": [-0.6, len(names) - 0.4],
    }
    if few and max(map(len, map(_short, names)), default=0) * len(names) > LETTERS:
        frame["rows"] = True
    if log_y:
        frame["yaxis"] |= {"type": "log", "range": _whole_decades(data)}
    return Figure(plot={"data": data, "layout": frame}, title=title, alt=alt, table=table)


def _whole_decades(data: list[dict[str, Any]]) -> list[int]:
    """Ends of a logarithmic axis as powers of ten; one decade if there is nothing to draw."""
    values = [v for trace in data for v in trace["y"] if v is not None and v > 0] or [1.0]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    return [low, max(high, low + 1)]


def _points(one: Dots, places: list[float], names: Sequence[str]) -> dict[str, Any]:
    colour = ROLES[one.role].colour
    up = [high - middle for high, middle in zip(one.high, one.middle, strict=True)]
    down = [middle - low for low, middle in zip(one.low, one.middle, strict=True)]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": one.name,
        "x": places,
        "y": _drawable(one.middle),
        "text": _named(names),
        "marker": {"size": 8, "colour": colour, "open": one.role == "initial"},
        "range": {"up": _drawable(up), "down": _drawable(down), "visible": any(up) or any(down)},
    }


def _bars(one: Dots, places: list[float], names: Sequence[str], least: float) -> dict[str, Any]:
    """The range of a null as a floating bar, at least so high that it can be seen."""
    tall = [max(high - low, least) for low, high in zip(one.low, one.high, strict=True)]
    base = [middle - t / 2 if t == least else low
            for middle, low, t in zip(one.middle, one.low, tall, strict=True)]  # fmt: skip
    return {
        "type": "bar",
        "name": one.name,
        "x": places,
        "y": _drawable(tall),
        "base": _drawable(base),
        "width": 0.36 if one.shift else 0.7,
        "said": list(zip(one.middle, one.low, one.high, strict=True)),  # the bar itself may be taller
        "text": _named(names),
        "marker": {"colour": with_alpha(ROLES[one.role].colour, 0.6)},
    }


def _named(names: Sequence[str]) -> list[str]:
    """What the pointer shows: names with their numbers, where numbers stand on the axis."""
    return list(names) if len(names) <= MOST_NAMES else [f"{i + 1}, {name}" for i, name in enumerate(names)]


def _drawable(values: Sequence[float]) -> list[float | None]:
    """Gaps where there is no number."""
    return [value if math.isfinite(value) else None for value in values]


def _short(name: str) -> str:
    return name if len(name) <= 22 else f"{name[:9]}…{name[-12:]}"
