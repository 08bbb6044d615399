"""The linearised model solved exactly, with and without a ridge."""

from dataclasses import dataclass

from torch import nn

from firstlight.measures.linearized.exact_solution import solve_linearized
from firstlight.training.loop import predictions
from reproduce.studies.linearized.tasks import Part

RIDGES = (0.0, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2)
"""Relative to the largest eigenvalue of the kernel; 0 is the solution of smallest norm."""

Scores = tuple[float, float]
"""Accuracy on training and on test images."""


@dataclass(frozen=True, kw_only=True)
class Solved:
    """Accuracies of the exact solution.

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
    """Solve for all ridges after one decomposition, in float64, and score the least norm and the best."""
    problem = solve_linearized(model, train.x, train.targets, show=False)
    lines = {ridge: problem.solution(ridge=ridge * problem.fit.largest) for ridge in RIDGES}
    validation = valid.x.double()
    best = min(RIDGES, key=lambda ridge: valid.error(predictions(lines[ridge], validation)))

    def scores(ridge: float) -> Scores:
        train_score, test_score = (
            part.accuracy(predictions(lines[ridge], part.x.double())) for part in (train, test)
        )
        return train_score, test_score

    least_norm = scores(0.0)
    return Solved(least_norm=least_norm, ridge=scores(best) if best else least_norm, best=best)
