"""What the studies of this theme share: grids of networks trained once, whoever asks."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.spread import sd as sd  # studies take it from here
from firstlight.insights import Findings, IdentityRun, IdentityTask, run_identity_tasks
from firstlight.store import Store

SMOKE = IdentityTask(dataset="photos", image_size=8, width=4, kernel=3, steps=4, n_images=40)
"""Seconds, no download; shows only that a study runs."""

SMOKE_FCN = dataclasses.replace(SMOKE, family="fcn", width=16)

DESK = IdentityTask()
"""Small enough for a desk: 14 x 14, 32 channels, default initialisation, Adam at 1e-3, stop at MSE 1e-3."""

DESK_28 = IdentityTask(image_size=28, width=16, steps=1500, stop_below=1e-4)
"""Full digits with few channels, for what shallow networks do."""

DESK_FCN = IdentityTask(
    family="fcn", image_size=28, optimiser="sgd", lr=0.01, momentum=0.9, steps=300, stop_below=1e-6
)
"""As wide as the image, the papers' optimiser, 300 steps."""

PAPER = IdentityTask.published()
PAPER_FCN = IdentityTask.published(family="fcn")


def varied(base: IdentityTask, seed: int, **changes: Any) -> IdentityTask:
    """Return the task with another seed and other settings."""
    return dataclasses.replace(base, seed=seed, **changes)


def grid(rows: Sequence[Sequence[IdentityTask]], *, label: str) -> list[list[IdentityRun]]:
    """Run all tasks of a table in one go, each taken from the store if it is there."""
    flat = [task for row in rows for task in row]
    runs = iter(run_identity_tasks(flat, store=Store(), label=label))
    return [[next(runs) for _ in row] for row in rows]


def numbers(
    runs: Sequence[Sequence[IdentityRun]], read: Callable[[Findings], float]
) -> Float[Tensor, "rows columns"]:
    """One number of every run; a diverged one raises, so that no verdict rests on it."""
    return torch.tensor([[read(run.found) for run in row] for row in runs], dtype=torch.float64)


def identity_on_unseen(found: Findings) -> float:
    """Mean Pearson to the identity on unseen images."""
    return found.scores["unseen"].means["identity"]


def constant_on_unseen(found: Findings) -> float:
    """Mean Pearson to the constant on unseen images."""
    return found.scores["unseen"].means["constant"]


def identity_at_zero(found: Findings) -> float:
    """Cosine to the identity at rho = 0."""
    return float(found.response.identity[0])


def constant_at_zero(found: Findings) -> float:
    """Cosine to the constant at rho = 0."""
    return float(found.response.constant[0])


def mean_identity(found: Findings) -> float:
    """Cosine to the identity, mean over the rho grid."""
    return float(found.response.identity.mean())


def mean_constant(found: Findings) -> float:
    """Cosine to the constant, mean over the rho grid."""
    return float(found.response.constant.mean())
