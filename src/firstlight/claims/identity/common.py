"""What the studies of this theme share: settings, trained networks, and a base for sweeps over one setting."""

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from firstlight.claims.sweep import SweepStudy
from firstlight.insights import Findings, IdentityTask, run_identity_tasks
from firstlight.store import Store

SMOKE = IdentityTask(dataset="photos", image_size=8, width=4, kernel=3, steps=4, n_images=40)
"""Seconds, no download; shows only that a study runs."""

SMOKE_FCN = dataclasses.replace(SMOKE, family="fcn", width=16)

DESK = IdentityTask()
"""14 x 14 pixels, 32 channels, default initialiser, Adam at 1e-3, stop at MSE 1e-3."""

DESK_28 = IdentityTask(image_size=28, width=16, steps=1500, stop_below=1e-4)
"""Full digits with few channels, for what shallow networks do."""

DESK_FCN = IdentityTask(
    family="fcn", image_size=28, optimiser="sgd", lr=0.01, momentum=0.9, steps=300, stop_below=1e-6
)
"""As wide as the image, the papers' optimiser, 300 steps."""

PAPER = IdentityTask.published()
PAPER_FCN = IdentityTask.published(family="fcn")

Reading = Callable[[Findings], float]


@dataclass(frozen=True, kw_only=True)
class Grid:
    """Settings of a sweep: one task, and the values that one of its fields takes."""

    base: IdentityTask
    values: tuple[Any, ...]
    seed: int = 0


class IdentitySweep(SweepStudy):
    """Trains the identity task at each value of one of its fields."""

    Config = Grid
    factor = "values"
    field: ClassVar[str]
    """Field of the task that the values are for."""

    unit = "cosine or Pearson"

    @classmethod
    def outcomes(cls, cfg: Grid, values: Sequence[Any]) -> list[Findings]:
        """Train at every value, or fetch from the store."""
        return trained([dataclasses.replace(cfg.base, seed=cfg.seed, **{cls.field: v}) for v in values])


def trained(tasks: Sequence[IdentityTask], *, label: str = "Identity task") -> list[Findings]:
    """Train all tasks side by side, each taken from the store if it is there; a diverged one raises."""
    return [run.found for run in run_identity_tasks(tasks, store=Store(), label=label)]


# ---------------------------------------------------------------- readings


def identity_on_unseen(findings: Findings) -> float:
    """Mean Pearson to the identity on unseen images."""
    return findings.scores["unseen"].means["identity"]


def constant_on_unseen(findings: Findings) -> float:
    """Mean Pearson to the constant on unseen images."""
    return findings.scores["unseen"].means["constant"]


def identity_at_zero(findings: Findings) -> float:
    """Cosine to the identity at rho = 0."""
    return float(findings.response.identity[0])


def constant_at_zero(findings: Findings) -> float:
    """Cosine to the constant at rho = 0."""
    return float(findings.response.constant[0])


def mean_identity(findings: Findings) -> float:
    """Cosine to the identity, mean over the rho grid."""
    return float(findings.response.identity.mean())


def mean_constant(findings: Findings) -> float:
    """Cosine to the constant, mean over the rho grid."""
    return float(findings.response.constant.mean())
