"""The spectrum of AlexNet's tangent kernel on natural images, by width."""

from dataclasses import dataclass
from typing import ClassVar

from firstlight.claims.linearized.alexnet_gap import SNAKES
from firstlight.claims.linearized.effective_ranks import Spectra, spectra
from firstlight.claims.linearized.sweep import is_rising
from firstlight.claims.linearized.tasks import Task
from firstlight.claims.study import Rule, study
from firstlight.figures import Curve, Figure, curves

PHOTOGRAPHS = Task(data="photos224", n=30, n_valid=8, n_test=8, side=64)


@study("lin.fig6.alexnet_rank")
class AlexNetRank:
    """Does the tangent kernel of AlexNet gain rank with width?

    The published numbers are for snakes of ImageNet, which cannot be had: large crops of photographs,
    brought to the smallest side that AlexNet takes.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        task: Task = PHOTOGRAPHS
        widths: tuple[float, ...] = (0.125, 0.25, 0.5)  # four-fold, as published
        seeds: int = 3
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            task=Task(data="photos", n=8, n_valid=8, n_test=8, side=64), widths=(0.03125, 0.0625), seeds=1
        ),
        "desk": Config(),
        "paper": Config(
            task=Task(data=SNAKES, n=600, n_valid=10, n_test=10, side=224),
            widths=(1.0, 2.0, 3.0, 4.0),
            seeds=1,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> Spectra:
        """Kernels of untrained networks."""
        return spectra(cfg.task, cfg.widths, model="alexnet", seeds=cfg.seeds, seed=cfg.seed)

    @staticmethod
    def figure(result: Spectra) -> Figure:
        """Both effective ranks against width."""
        return curves(
            [
                Curve(name="kernel", values=result.kernel_rank),
                Curve(name="Jacobian", values=result.jacobian_rank, role="theory"),
            ],
            title="Effective rank of AlexNet's kernel",
            alt="Effective rank from kernel and from Jacobian against width",
            x="width factor",
            y="effective rank",
            at=result.widths,
            log_x=True,
        )

    rules: ClassVar = {
        "lin.fig6.alexnet_rank": Rule(
            measured=lambda r: {**r.ranks(), "growth": r.growth},
            reproduced=lambda r: (
                r.widths[-1] >= 4 and float(r.kernel_rank.max()) < r.rows / 2 and r.growth < 1.5
            ),
            partly=lambda r: is_rising(r.kernel_rank.mean(0).tolist()),
            spread=lambda r: r.spread("kernel", r.kernel_rank),
            null=lambda r: r.context(),
            note="eight photographs instead of snakes and a fraction of AlexNet's width, so that the published "
            "numbers cannot be judged; the range of widths is four-fold, as published",
        )
    }
