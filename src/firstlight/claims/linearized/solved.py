"""The linearised model solved exactly, by the smaller of kernel and Jacobian."""

import copy
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.linearized.tasks import Part
from firstlight.measures import jacobian, ntk_gram
from firstlight.models import parameter_count
from firstlight.training import predictions

RIDGES = (0.0, 1e-8, 1e-7, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 1e-1)
"""Relative to the largest eigenvalue of the kernel; 0 is the solution of smallest norm."""

Scores = tuple[float, float]


@dataclass(frozen=True, kw_only=True)
class Solved:
    """Train and test accuracy of the exact solution.

    Parameters
    ----------
    least_norm : without ridge.
    ridge : with the ridge of smallest squared error on the validation images.
    best : that ridge.
    """

    least_norm: Scores
    ridge: Scores
    best: float


def solved(model: nn.Module, train: Part, valid: Part, test: Part) -> Solved:
    """Solve for all ridges after one decomposition, in float64, and score."""
    exact = copy.deepcopy(model).double()
    parts = (train, valid, test)
    images = [part.x.double() for part in parts]
    starts = [predictions(exact, x) for x in images]
    residual = (train.targets.double() - starts[0]).flatten()
    few_weights = parameter_count(exact) < residual.numel()
    path = (_primal if few_weights else _dual)(exact, images, residual)
    outputs = [
        [start + part.reshape(start.shape) for start, part in zip(starts, at_ridge, strict=True)]
        for at_ridge in path
    ]
    scores = [(train.accuracy(o[0]), test.accuracy(o[2])) for o in outputs]
    errors = [valid.error(o[1]) for o in outputs]
    chosen = min(range(len(RIDGES)), key=errors.__getitem__)
    return Solved(least_norm=scores[0], ridge=scores[chosen], best=RIDGES[chosen])


def _dual(model: nn.Module, images: list[Tensor], residual: Float[Tensor, " rows"]) -> list[list[Tensor]]:
    """J' J^T (J J^T + ridge)^-1 r for the rows J' of each part."""
    gram = ntk_gram(model, images[0], outputs="full", show=False)
    cross = [ntk_gram(model, x, images[0], outputs="full", show=False) for x in images[1:]]
    values, vectors = torch.linalg.eigh(gram)
    turned = vectors.T @ residual
    found = []
    for ridge in RIDGES:
        dual = vectors @ (_inverse(values, ridge) * turned)
        found.append([matrix @ dual for matrix in (gram, *cross)])
    return found


def _primal(model: nn.Module, images: list[Tensor], residual: Float[Tensor, " rows"]) -> list[list[Tensor]]:
    """The same with (J^T J + ridge)^-1, through the singular values of J: nothing is squared."""
    rows = [jacobian(model, x) for x in images]
    left, singular, right = torch.linalg.svd(rows[0], full_matrices=False)
    turned = left.T @ residual
    found = []
    for ridge in RIDGES:
        u = right.T @ (singular * _inverse(singular.square(), ridge) * turned)
        found.append([matrix @ u for matrix in rows])
    return found


def _inverse(values: Float[Tensor, " m"], ridge: float) -> Float[Tensor, " m"]:
    """Inverse eigenvalues with a ridge; those within rounding of zero count as zero."""
    top = float(values.max())
    is_kept = values > len(values) * torch.finfo(torch.float64).eps * top
    return torch.where(is_kept, 1 / (values + ridge * top).clamp(min=1e-300), 0.0)
