"""Effective ranks of LeNet's tangent kernel before training, by width."""

from dataclasses import dataclass, replace

import torch

from firstlight.measures.linearized.tangent_kernel_summary import effective_rank
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.linearized.common import SHIFT
from reproduce.studies.linearized.spectra import rank_readings, spectra
from reproduce.studies.linearized.tasks import Task

DESK_TASK = Task(n=300, n_valid=10, n_test=10)
SMOKE_TASK = Task(data="photos", n=8, n_valid=8, n_test=8)
SIZE = 50  # of the matrices with known rank


@study("lin.effective_rank.def", "lin.fig6.lenet_rank", "lin.fig6.shifted_rank")
class EffectiveRanks(Study):
    """Does the tangent kernel of LeNet gain rank with width?

    Effective rank from the kernel and from the Jacobian side by side: they differ several-fold. All ranks
    are shares of the number of rows.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Untrained networks on digits, shifted or not."""

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
        shifted = replace(cfg.task, shift=SHIFT)
        equal = torch.ones(SIZE, dtype=torch.float64)
        one = torch.nn.functional.pad(equal[:1], (0, SIZE - 1))
        return {
            **rank_readings(spectra(cfg.task, cfg.widths, model="lenet", seed=cfg.seed), "digits"),
            **rank_readings(spectra(shifted, cfg.widths, model="lenet", seed=cfg.seed), "shifted digits"),
            "effective rank of 50 equal values": effective_rank(equal),
            "effective rank of one value": effective_rank(one),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Effective ranks as a share of the rows, against width."""
        roles = {
            "kernel rank of digits": "trained",
            "kernel rank of shifted digits": "random labels",
            "Jacobian rank of digits": "theory",
            "Jacobian rank of shifted digits": "other",
            "rank of independent numbers like digits": "null",
        }
        return curves(
            [Curve(name=name, values=evidence.table(name), role=role) for name, role in roles.items()],
            title="Effective rank by width, from kernel and from Jacobian",
            alt="Effective rank over rows against width, two definitions, digits and shifted digits",
            x="width factor",
            y="effective rank / rows",
            at=[float(width) for width in evidence.points("kernel rank of digits")],
            log_x=True,
        )
