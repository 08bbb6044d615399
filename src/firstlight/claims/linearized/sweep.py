"""Twins over several widths of one task, and what the rules read from them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.linearized.twins import Plan, Twins, run_twins
from firstlight.claims.spread import sd
from firstlight.core.result import Result
from firstlight.figures import Curve

TEST = 1  # column of an accuracy table


@dataclass(frozen=True, kw_only=True)
class Sweep(Result):
    """Twins of one task, by increasing width."""

    name: str
    rows: tuple[Twins, ...]

    @property
    def widths(self) -> tuple[float, ...]:
        """Width factors."""
        return tuple(row.width for row in self.rows)

    def at(self, width: float) -> Twins:
        """The twins of one width."""
        return self.rows[self.widths.index(width)]

    def accuracy(self, model: str, column: int = TEST) -> Float[Tensor, "seeds widths"]:
        """Accuracies of "network", "linear", "exact" or "ridge", on test images unless `column` is 0."""
        return torch.stack([getattr(row, model)[:, column] for row in self.rows], dim=1)

    def mean(self, model: str, column: int = TEST) -> list[float]:
        """Mean accuracy over seeds by width."""
        found: list[float] = self.accuracy(model, column).mean(0).tolist()
        return found

    def gap(self, width: float) -> float:
        """Mean test accuracy of the network minus that of the linearisation, trained alike."""
        return float(self.at(width).gap.mean())

    def gain(self, model: str) -> float:
        """Test accuracy of the widest minus that of the narrowest."""
        values = self.mean(model)
        return values[-1] - values[0]

    def by_width(self, what: str, values: Sequence[float]) -> dict[str, float]:
        """Numbers under names that say the width."""
        return {f"{what} {label(w)}": float(v) for w, v in zip(self.widths, values, strict=True)}

    def gaps(self) -> dict[str, float]:
        """Mean gap by width."""
        return self.by_width(f"{self.name} gap", [float(row.gap.mean()) for row in self.rows])

    def gap_spread(self) -> dict[str, float]:
        """Standard deviation of the gap over seeds by width."""
        return self.by_width(f"{self.name} gap", [sd(row.gap) for row in self.rows])

    def curves(self) -> list[Curve]:
        """Test accuracy against width: both models, and the exact solve where there is one."""
        found = [
            Curve(name=f"{self.name}: network", values=self.accuracy("network")),
            Curve(name=f"{self.name}: linearised, SGD", values=self.accuracy("linear"), role="random labels"),
        ]
        if not math.isnan(float(self.accuracy("ridge").mean())):
            solved = Curve(
                name=f"{self.name}: linearised, solved", values=self.accuracy("ridge"), role="theory"
            )
            found.append(solved)
        return found


def sweep(name: str, plans: Sequence[Plan]) -> Sweep:
    """Train the twins of all plans, or fetch them."""
    return Sweep(name=name, rows=tuple(run_twins(plans, label=f"Twins on {name}")))


def label(width: float) -> str:
    """A width factor as one writes it.

    Examples
    --------
    >>> label(0.25), label(8.0)
    ('x1/4', 'x8')
    """
    return f"x{width:g}" if width >= 1 else f"x1/{1 / width:g}"


def is_rising(values: Sequence[float], *, tolerance: float = 0.0) -> bool:
    """Whether each value lies above the one before, or less than `tolerance` below it."""
    return all(b > a - tolerance for a, b in pairwise(values))
