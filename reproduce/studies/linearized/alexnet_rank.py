"""The spectrum of AlexNet's tangent kernel on natural images, by width."""

from dataclasses import dataclass

from reproduce.catalogue import Study, study
from reproduce.evidence import Measured
from reproduce.studies.linearized.spectra import rank_readings, spectra
from reproduce.studies.linearized.tasks import Task

PHOTOGRAPHS = Task(data="photos224", n=100, n_valid=8, n_test=8, side=64)


@study("lin.fig6.alexnet_rank")
class AlexnetRank(Study):
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
    }
    unit = "effective rank / rows"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Kernels of untrained networks."""
        return rank_readings(spectra(cfg.task, cfg.widths, model="alexnet", seed=cfg.seed), "photographs")
