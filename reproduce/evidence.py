"""What a study measured over its seeds: named numbers, each with its interval."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import torch
from jaxtyping import Float
from scipy.stats import t as student
from torch import Tensor

from firstlight._internal.result import Result

Point = int | float | str
LEVEL = 0.95


@dataclass(frozen=True, kw_only=True, eq=False)
class Series(Result):
    """One number at each point of an axis, such as an accuracy at each width.

    Parameters
    ----------
    points : tuple of (int or float or str)
        Where the numbers were measured, in order.
    values : Tensor of shape (points,)
        The numbers, in float64.
    """

    points: tuple[Point, ...]
    values: Float[Tensor, " points"]


def by(points: Iterable[Point], values: Sequence[float] | Tensor) -> Series:
    """Return a series of numbers by point.

    Examples
    --------
    >>> by((3, 5), [0.1, 0.2]).points
    (3, 5)
    """
    series = Series(points=tuple(points), values=torch.as_tensor(values, dtype=torch.float64).reshape(-1))
    if len(series.points) != len(series.values):
        raise ValueError(f"{len(series.points)} points, but {len(series.values)} values")
    return series


Measured = Mapping[str, float | Series | Tensor]
"""What a study returns for one seed.

Numbers and series are judged and printed; plain tensors are kept for the figure only.
"""


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """A mean over seeds with its interval.

    Parameters
    ----------
    mean, low, high : float
        The mean, and Student's interval for it. One seed alone tells nothing about the spread: its
        interval is infinite.
    seeds : tuple of float
        The value of each seed.
    """

    mean: float
    low: float
    high: float
    seeds: tuple[float, ...]


def estimate(values: Float[Tensor, " seeds"]) -> Estimate:
    r"""Mean over seeds with Student's interval, :math:`\bar x \pm t_{n-1} s / \sqrt n`.

    Student's interval rather than a bootstrap: with five seeds the percentile bootstrap covers the truth
    in about 83 % of repetitions, Student's in 95 % for normal and at least 93 % for uniform values, and
    85 % to 90 % for strongly skewed ones (tests/reproduce/test_evidence.py simulates all three).

    Examples
    --------
    >>> shown = estimate(torch.tensor([1.0, 2.0, 3.0]))
    >>> round(shown.mean, 2), round(shown.low, 2), round(shown.high, 2)
    (2.0, -0.48, 4.48)
    """
    row = values.double()
    n, mean = len(row), float(row.mean())
    half = float("inf")
    if n > 1:
        half = _quantile(n - 1) * float(row.std()) / n**0.5
    return Estimate(mean=mean, low=mean - half, high=mean + half, seeds=tuple(row.tolist()))


@cache
def _quantile(degrees: int) -> float:
    return float(student.ppf(0.5 + LEVEL / 2, degrees))


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """The measurements of one study over all its seeds.

    Parameters
    ----------
    seeds : tuple of int
        In the order of the values.
    values : dict of str to dict of Point to Tensor
        By name and point, one value per seed; a plain number has the single point None.
    arrays : dict of str to tuple of Tensor
        What only figures need, one tensor per seed.
    """

    seeds: tuple[int, ...]
    values: dict[str, dict[Point | None, Float[Tensor, " seeds"]]] = field(default_factory=dict)
    arrays: dict[str, tuple[Tensor, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, results: Mapping[int, Measured]) -> "Evidence":
        """Stack what each seed measured; a name or point that one seed lacks is left out."""
        values: dict[str, dict[Point | None, Tensor]] = {}
        arrays: dict[str, tuple[Tensor, ...]] = {}
        rows = list(results.values())
        for name in rows[0]:
            if not all(name in row for row in rows):
                continue
            if all(isinstance(row[name], Tensor) for row in rows):
                arrays[name] = tuple(torch.as_tensor(row[name]) for row in rows)
                continue
            tables = [_table(row[name]) for row in rows]
            values[name] = {
                point: torch.tensor([table[point] for table in tables], dtype=torch.float64)
                for point in tables[0]
                if all(point in table for table in tables)
            }
        return cls(seeds=tuple(results), values=values, arrays=arrays)

    def points(self, name: str) -> tuple[Point, ...]:
        """Points at which a series was measured."""
        return tuple(point for point in self.values.get(name, {}) if point is not None)

    def table(self, name: str) -> Float[Tensor, "seeds points"]:
        """A series as one row per seed, for figures."""
        return torch.stack(list(self.values[name].values()), dim=1)

    def estimates(self, names: Iterable[str]) -> dict[str, Estimate]:
        """Estimates of the named numbers, one entry per point of a series."""
        return {
            name if point is None else f"{name}, {point}": estimate(row)
            for name in names
            for point, row in self.values.get(name, {}).items()
        }


def _table(value: Any) -> dict[Point | None, float]:
    if isinstance(value, Series):
        return dict(zip(value.points, value.values.tolist(), strict=True))
    return {None: float(value)}
