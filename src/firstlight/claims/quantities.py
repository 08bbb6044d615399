"""Numbers that a rule speaks of, as expressions that print themselves and can be computed.

``value("constant", at=57) - value("constant", at=5) > 0`` is a :class:`~firstlight.claims.conditions.Condition`
that reads "constant at 57 - constant at 5 > 0", knows that it needs the points 5 and 57, and is decided by the
interval over seeds. Words and computation come from this one expression, so they cannot drift apart.
"""

import operator
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.evidence import Evidence, Point

if TYPE_CHECKING:
    from firstlight.claims.conditions import Condition

Missing = frozenset[str]
"""Measurements that a quantity needs and the evidence does not hold, in words."""


@dataclass(frozen=True, eq=False)
class Quantity:
    """A number for each seed, computed from the evidence.

    Parameters
    ----------
    words : str
        How the number reads in a rule.
    compute : callable
        From evidence to one value per seed; only called when nothing is missing.
    missing : callable
        From evidence to what is not there.
    names : frozenset of str
        Measurements it speaks of.
    """

    words: str
    compute: Callable[[Evidence], Float[Tensor, " seeds"]]
    missing: Callable[[Evidence], Missing]
    names: frozenset[str]

    def __add__(self, other: "Quantity | float") -> "Quantity":
        return _combined(self, other, operator.add, "+")

    def __sub__(self, other: "Quantity | float") -> "Quantity":
        return _combined(self, other, operator.sub, "-")

    def __mul__(self, other: "Quantity | float") -> "Quantity":
        return _combined(self, other, operator.mul, "x")

    def __rmul__(self, other: float) -> "Quantity":
        return _combined(constant(other), self, operator.mul, "x")

    def __rsub__(self, other: float) -> "Quantity":
        return _combined(constant(other), self, operator.sub, "-")

    def __truediv__(self, other: "Quantity | float") -> "Quantity":
        return _combined(self, other, operator.truediv, "/")

    def __neg__(self) -> "Quantity":
        return -1 * self

    def __abs__(self) -> "Quantity":
        return Quantity(f"|{self.words}|", lambda e: self.compute(e).abs(), self.missing, self.names)

    def __gt__(self, other: "Quantity | float") -> "Condition":
        return _compared(self, ">", other)

    def __lt__(self, other: "Quantity | float") -> "Condition":
        return _compared(self, "<", other)

    def __ge__(self, other: "Quantity | float") -> "Condition":
        return _compared(self, ">=", other)

    def __le__(self, other: "Quantity | float") -> "Condition":
        return _compared(self, "<=", other)


def constant(number: float) -> Quantity:
    """Return a fixed number as a quantity."""
    return Quantity(
        f"{number:g}",
        lambda e: torch.full((len(e.seeds),), float(number), dtype=torch.float64),
        lambda e: frozenset(),
        frozenset(),
    )


def value(name: str, at: Point | None = None) -> Quantity:
    """Return a measured number, or a series at one of its points.

    Examples
    --------
    >>> (value("constant", at=57) - value("constant", at=5) > 0).words
    'constant at 57 - constant at 5 > 0'
    """
    words = name if at is None else f"{name} at {at}"

    def missing(evidence: Evidence) -> Missing:
        return frozenset() if at in evidence.values.get(name, {}) else frozenset({words})

    return Quantity(words, lambda e: e.values[name][at], missing, frozenset({name}))


def at_end(name: str, *, end: str) -> Quantity:
    """Return a series at its "first" or "last" point, whichever that was in the run.

    For reduced rules: which point it is follows from the settings, so it can always be judged.
    """
    index = {"first": 0, "last": -1}[end]

    def missing(evidence: Evidence) -> Missing:
        return frozenset() if evidence.points(name) else frozenset({name})

    return Quantity(
        f"{name} at the {end} point that ran",
        lambda e: e.values[name][e.points(name)[index]],
        missing,
        frozenset({name}),
    )


def average(name: str, *, over: Iterable[Point] | None = None) -> Quantity:
    """Return the mean of a series over its points, seed by seed."""
    return _reduced("mean", name, over, lambda table: table.mean(1))


def lowest(name: str, *, over: Iterable[Point] | None = None) -> Quantity:
    """Return the lowest value of a series, seed by seed."""
    return _reduced("lowest", name, over, lambda table: table.min(1).values)


def highest(name: str, *, over: Iterable[Point] | None = None) -> Quantity:
    """Return the highest value of a series, seed by seed."""
    return _reduced("highest", name, over, lambda table: table.max(1).values)


def share(name: str, *, above: float | None = None, below: float | None = None) -> Quantity:
    """Return the share of a series' points above, or below, a number.

    Examples
    --------
    >>> share("Pearson", above=0.8).words
    'share of points with Pearson > 0.8'
    """
    if above is not None and below is None:
        return _reduced(
            "share of points with", name, None, lambda t: (t > above).double().mean(1), f" > {above:g}"
        )
    if below is not None and above is None:
        return _reduced(
            "share of points with", name, None, lambda t: (t < below).double().mean(1), f" < {below:g}"
        )
    raise ValueError("give either `above` or `below`")


def _reduced(
    word: str,
    name: str,
    over: Iterable[Point] | None,
    reduce: Callable[[Tensor], Tensor],
    after: str = "",
) -> Quantity:
    wanted = None if over is None else tuple(over)

    def table(evidence: Evidence) -> Tensor:
        points = evidence.points(name) if wanted is None else wanted
        return torch.stack([evidence.values[name][point] for point in points], dim=1)

    def missing(evidence: Evidence) -> Missing:
        known = evidence.points(name)
        if wanted is None:
            return frozenset() if known else frozenset({name})
        return frozenset(f"{name} at {point}" for point in wanted if point not in known)

    where = "" if wanted is None else f" at {', '.join(str(point) for point in wanted)}"
    return Quantity(f"{word} {name}{after}{where}", lambda e: reduce(table(e)), missing, frozenset({name}))


def _combined(
    left: Quantity, right: "Quantity | float", operation: Callable[[Tensor, Tensor], Tensor], sign: str
) -> Quantity:
    other = right if isinstance(right, Quantity) else constant(right)
    a, b = (f"({q.words})" if sign in "x/" and " " in _outside_names(q) else q.words for q in (left, other))
    if sign == "-" and other.names and any(s in other.words for s in (" - ", " + ")):
        b = f"({other.words})"
    return Quantity(
        f"{a} {sign} {b}",
        lambda e: operation(left.compute(e), other.compute(e)),
        lambda e: left.missing(e) | other.missing(e),
        left.names | other.names,
    )


def _outside_names(quantity: Quantity) -> str:
    """The words without the measured names, which may hold spaces of their own."""
    words = quantity.words
    for name in sorted(quantity.names, key=len, reverse=True):
        words = words.replace(name, "")
    return "" if not any(sign in words for sign in (" + ", " - ", " x ", " / ")) else words


def _compared(left: Quantity, relation: str, right: "Quantity | float") -> "Condition":
    from firstlight.claims.conditions import comparison

    return comparison(left, relation, right)
