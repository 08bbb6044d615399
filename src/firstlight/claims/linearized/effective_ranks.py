"""Effective ranks of LeNet's tangent kernel before training, by width."""

from dataclasses import dataclass, replace

import torch

from firstlight.claims.conditions import all_of, each, rising, within
from firstlight.claims.evidence import Evidence, Measured
from firstlight.claims.linearized.common import PUBLISHED_WIDTHS, SHIFT
from firstlight.claims.linearized.spectra import rank_readings, spectra
from firstlight.claims.linearized.tasks import Task
from firstlight.claims.quantities import Quantity, at_end, highest, lowest, value
from firstlight.claims.rules import Change, NoNull, Rule
from firstlight.claims.study import Study, study
from firstlight.measures.linearized.tangent_kernel_summary import effective_rank
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure

DESK_TASK = Task(n=300, n_valid=10, n_test=10)
SMOKE_TASK = Task(data="photos", n=8, n_valid=8, n_test=8)
PAPER_TASK = Task(n=600, n_valid=10, n_test=10)
SIZE = 50  # of the matrices with known rank


def growth(name: str) -> Quantity:
    """The last point over the first."""
    return at_end(name, end="last") / at_end(name, end="first")


def below_independent(of: str) -> Quantity:
    """How far the kernel's rank stays below that of independent numbers, at every width."""
    return lowest(f"rank of independent numbers like {of}") - highest(f"kernel rank of {of}")


GROWS = at_end("kernel rank of digits", end="last") > at_end("kernel rank of digits", end="first")
SHIFTED_RISES = rising("kernel rank of shifted digits")


@study
class LeNetRanks(Study):
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
        "paper": Config(task=PAPER_TASK, widths=PUBLISHED_WIDTHS),
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

    rules = (
        Rule(
            claim="lin.effective_rank.def",
            effect=all_of(
                within(value("effective rank of 50 equal values"), 50, tolerance=1e-9),
                within(value("effective rank of one value"), 1, tolerance=1e-9),
            ),
            null=NoNull("a definition, checked on matrices whose rank is known"),
        ),
        Rule(
            claim="lin.fig6.lenet_rank",
            effect=all_of(rising("kernel rank of digits"), each("kernel rank of digits", "<", 0.5), GROWS),
            reduced=all_of(GROWS, each("kernel rank of digits", "<", 1)),
            null=all_of(
                below_independent("digits") > 0.5,
                growth("kernel rank of digits") > growth("rank of independent numbers like digits"),
            ),
            note="shares of the rows: half stands for the 3000 of 6000; judged on the kernel, from which the paper "
            "computes; from the Jacobian, which it names, the rank is not far below the rows",
        ),
        Rule(
            claim="lin.fig6.shifted_rank",
            effect=all_of(
                SHIFTED_RISES, growth("kernel rank of shifted digits") < growth("kernel rank of digits")
            ),
            reduced=SHIFTED_RISES,
            null=growth("kernel rank of shifted digits")
            > growth("rank of independent numbers like shifted digits"),
            note="both halves of the statement: the rank rises, and by a smaller factor than without shifts",
            change=Change("that the rise is less marked than without shifts was not judged"),
        ),
    )
