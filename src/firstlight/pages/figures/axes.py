"""Axes as numbers: where a value lies between two ends, and which values are worth a label."""

import math
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Scale:
    """One axis.

    Parameters
    ----------
    low, high : float
        The ends, as powers of ten on a logarithmic axis; `low` may be the larger.
    is_log : bool
        Whether the axis is logarithmic.
    names : tuple of str
        Of the places 0, 1, ..., if the axis counts things.
    ticks : tuple of tuple of (object, str)
        Labelled values.
    """

    low: float
    high: float
    is_log: bool
    names: tuple[str, ...]
    ticks: tuple[tuple[Any, str], ...]

    def holds(self, value: Any) -> bool:
        """Whether a value can be drawn at all."""
        if isinstance(value, str):
            return value in self.names
        return value is not None and math.isfinite(value) and (value > 0 or not self.is_log)

    def place(self, value: Any) -> float:
        """Share of the way from `low` to `high`."""
        number = float(self.names.index(value)) if isinstance(value, str) else float(value)
        number = math.log10(number) if self.is_log else number
        return (number - self.low) / ((self.high - self.low) or 1.0)


def scale_of(plot: dict[str, Any], letter: str) -> Scale:
    """Return the axis `letter` ("x" or "y") of a plot."""
    settings = plot["layout"].get(f"{letter}axis", {})
    is_log = settings.get("type") == "log"
    values = [v for trace in plot["data"] for v in _values(trace, letter)]
    names = tuple(dict.fromkeys(v for v in values if isinstance(v, str)))
    numbers = [math.log10(v) if is_log else v for v in values
               if not isinstance(v, str) and v is not None and math.isfinite(v) and (v > 0 or not is_log)]  # fmt: skip
    if "range" in settings:
        low, high = (float(v) for v in settings["range"])
    elif names:
        low, high = -0.5, len(names) - 0.5
    else:
        low, high = min(numbers, default=0.0), max(numbers, default=1.0)
        room = 0.04 * (high - low) or 0.5
        low, high = low - room, high + room
    if settings.get("reversed"):
        low, high = high, low
    if settings.get("visible") is False:
        ticks: tuple[tuple[Any, str], ...] = ()
    elif "tickvals" in settings:
        ticks = tuple(zip(settings["tickvals"], map(str, settings["ticktext"]), strict=True))
    elif names:
        ticks = tuple((name, name) for name in names)
    else:
        ticks = tuple((v, f"{v:g}") for v in (_decades(low, high) if is_log else _round_values(low, high)))
    return Scale(low, high, is_log, names, ticks)


def _values(trace: dict[str, Any], letter: str) -> list[Any]:
    if trace["type"] in ("image", "cross"):
        return []
    values = list(trace[letter])
    if letter == "y" and trace["type"] == "bar":
        base = trace.get("base") or [0.0] * len(values)
        values = [v + b for v, b in zip(values, base, strict=True) if None not in (v, b)] + list(base)
    if letter == "y" and trace.get("range", {}).get("visible"):
        bars, middle = trace["range"], list(trace["y"])
        for sign, ends in ((1, bars["up"]), (-1, bars["down"])):
            values += [m + sign * e for m, e in zip(middle, ends, strict=True) if None not in (m, e)]
    return values


def _round_values(low: float, high: float, *, about: int = 5) -> list[float]:
    """Few round numbers between two ends.

    Examples
    --------
    >>> _round_values(0.0, 1.0)
    [0.0, 0.2, 0.4, 0.6, 0.8, 1.0]
    """
    low, high = min(low, high), max(low, high)
    raw = (high - low) / about or 1.0
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(m * power for m in (1, 2, 5, 10) if m * power >= 0.8 * raw)
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    return [round(i * step, 12) for i in range(first, last + 1)]


def _decades(low: float, high: float) -> list[float]:
    """Powers of ten, or 1, 2 and 5 times them where there are few."""
    powers = range(math.floor(low), math.ceil(high) + 1)
    every = max(1, len(powers) // 6)
    decades = [10.0**p for p in powers if p % every == 0 and low - 1e-9 <= p <= high + 1e-9]
    if len(decades) >= 3:
        return decades
    return [m * 10.0**p for p in powers for m in (1, 2, 5) if low <= math.log10(m) + p <= high]


@dataclass(frozen=True)
class Area:
    """Where the data lie in the drawing, and how values become pixels.

    Parameters
    ----------
    x, y : Scale
        The axes.
    left, top, width, height : float
        In pixels.
    is_numbered : bool, default False
        Whether marks carry the number of their point, so that a page can show the picture that belongs to it.
    is_turned : bool, default False
        Whether the x of a trace runs down and its y across, so that columns become rows. The two scales are those of
        the drawing: `x` is the horizontal one.
    """

    x: Scale
    y: Scale
    left: float
    top: float
    width: float
    height: float
    is_numbered: bool = False
    is_turned: bool = False

    def across(self, value: Any) -> float:
        """Horizontal pixel of a value."""
        return self.left + self.width * self.x.place(value)

    def down(self, value: Any) -> float:
        """Vertical pixel of a value, counted from the top."""
        return self.top + self.height * (1 - self.y.place(value))

    def place(self, x: Any, y: Any) -> tuple[float, float]:
        """Pixels of a point of a trace."""
        x, y = (y, x) if self.is_turned else (x, y)
        return self.across(x), self.down(y)

    def holds(self, x: Any, y: Any) -> bool:
        """Whether a point of a trace has a place: gaps and zeros on logarithmic axes have none."""
        x, y = (y, x) if self.is_turned else (x, y)
        return self.x.holds(x) and self.y.holds(y)
