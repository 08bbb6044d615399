"""Singular values of LeNet's Jacobian before training, by width."""

from dataclasses import dataclass, replace

import torch

from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.linearized.common import SHIFT, factor
from reproduce.studies.linearized.effective_ranks import DESK_TASK, SMOKE_TASK
from reproduce.studies.linearized.spectra import gaussian_condition, spectra
from reproduce.studies.linearized.tasks import Task

SHARES = 50
"""Points at which the distribution of the singular values is drawn."""


@study("lin.fig7.conditioning")
class Conditioning(Study):
    """Does width raise the smallest singular values of the Jacobian and improve its condition?

    The kernels are those of the effective ranks. The figure shows the whole distribution.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Untrained networks on digits."""

        task: Task = DESK_TASK
        widths: tuple[float, ...] = (1, 2, 4)
        seed: int = 0

    scales = {
        "smoke": Config(task=SMOKE_TASK, widths=(0.5, 1)),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Kernels of untrained networks."""
        digits = spectra(cfg.task, cfg.widths, model="lenet", seed=cfg.seed)
        shifted = spectra(replace(cfg.task, shift=SHIFT), cfg.widths, model="lenet", seed=cfg.seed)
        points = [factor(width) for width in cfg.widths]
        shares = torch.linspace(0, 1, SHARES, dtype=torch.float64)
        return {
            "condition number": by(points, [one.condition for one in digits.values()]),
            "condition number of shifted digits": by(points, [one.condition for one in shifted.values()]),
            "condition number of independent numbers": by(
                points, [gaussian_condition(len(one.values), one.weights) for one in digits.values()]
            ),
            "smallest singular value": by(points, [float(one.singular[-1]) for one in digits.values()]),
            "distribution": torch.stack([one.singular.quantile(shares) for one in digits.values()]),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Quantiles of the singular values, one curve per width."""
        widths = evidence.points("condition number")
        return curves(
            [
                Curve(
                    name=f"x{width}",
                    values=torch.stack([seed[i] for seed in evidence.arrays["distribution"]]),
                    shade=i / max(len(widths) - 1, 1),
                )
                for i, width in enumerate(widths)
            ],
            title="Distribution of the singular values of the Jacobian, by width",
            alt="Quantiles of the singular values on a logarithmic axis, one curve per width",
            x="share of the singular values below",
            y="singular value",
            at=torch.linspace(0, 1, SHARES).tolist(),
            log_y=True,
        )
