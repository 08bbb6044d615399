"""The spectrum of AlexNet's tangent kernel on natural images, by width."""

from dataclasses import dataclass

from firstlight.claims.conditions import all_of, each, rising
from firstlight.claims.evidence import Measured
from firstlight.claims.linearized.alexnet_gap import SNAKES
from firstlight.claims.linearized.effective_ranks import below_independent
from firstlight.claims.linearized.spectra import rank_readings, spectra
from firstlight.claims.linearized.tasks import Task
from firstlight.claims.quantities import value
from firstlight.claims.rules import Rule
from firstlight.claims.study import Study, study

RANK = "kernel rank of photographs"
PHOTOGRAPHS = Task(data="photos224", n=100, n_valid=8, n_test=8, side=64)


@study
class AlexNetRank(Study):
    """Does the tangent kernel of AlexNet gain rank with width?

    The published numbers are for snakes of ImageNet, which cannot be had: large crops of photographs,
    brought to the smallest side that AlexNet takes. Ranks are shares of the number of rows.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Untrained networks on photographs."""

        task: Task = PHOTOGRAPHS
        widths: tuple[float, ...] = (0.125, 0.25, 0.5)  # four-fold, as published
        seed: int = 0

    scales = {
        "smoke": Config(
            task=Task(data="photos", n=8, n_valid=8, n_test=8, side=64), widths=(0.03125, 0.0625)
        ),
        "desk": Config(),
        "paper": Config(task=Task(data=SNAKES, n=600, n_valid=10, n_test=10, side=224), widths=(1, 2, 3, 4)),
    }
    unit = "effective rank / rows"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Kernels of untrained networks."""
        return rank_readings(spectra(cfg.task, cfg.widths, model="alexnet", seed=cfg.seed), "photographs")

    rules = (
        Rule(
            claim="lin.fig6.alexnet_rank",
            effect=all_of(rising(RANK), each(RANK, "<", 0.5), value(RANK, at=4) / value(RANK, at=1) < 1.5),
            reduced=rising(RANK),
            null=below_independent("photographs") > 0.5,
            note="eight photographs instead of snakes and a fraction of AlexNet's width, so that the published "
            "numbers cannot be judged; the range of widths is four-fold, as published; 100 images, where the first "
            "ledger had 30",
        ),
    )
