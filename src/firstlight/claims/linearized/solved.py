"""The linearised model solved exactly, with and without a ridge."""

from dataclasses import dataclass

from torch import nn

from firstlight.claims.linearized.tasks import Part
from firstlight.measures.linearized import solve_linearized
from firstlight.training import predictions

RIDGES = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Relative to the largest eigenvalue of the kernel; 0 is the solution of smallest norm."""

Scores = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Solved:
    """Train and test accuracy of the exact solution.

    Parameters
    ----------
    least_norm : Scores
        Without ridge.
    ridge : Scores
        With the ridge of smallest squared error on the validation images.
    best : float
        That ridge.
    """

    least_norm: Scores
    ridge: Scores
    best: float


def solved(model: nn.Module, train: Part, valid: Part, test: Part) -> Solved:
    """Solve for all ridges after one decomposition, in float64, and score."""
    problem = solve_linearized(model, train.x, train.targets, show=False)
    errors, scores = [], []
    for ridge in RIDGES:
        line = problem.solution(ridge=ridge * problem.fit.largest)
        outputs = [predictions(line, part.x.double()) for part in (train, valid, test)]
        errors.append(valid.error(outputs[1]))
        scores.append((train.accuracy(outputs[0]), test.accuracy(outputs[2])))
    chosen = min(range(len(RIDGES)), key=errors.__getitem__)
    return Solved(least_norm=scores[0], ridge=scores[chosen], best=RIDGES[chosen])
