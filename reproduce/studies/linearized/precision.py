"""The same pairs in single and in double precision."""

from dataclasses import dataclass, replace

from reproduce.catalogue import Study, study
from reproduce.evidence import Measured
from reproduce.studies.linearized.common import DESK_BINARY, SMOKE_BINARY, pairs_by_width
from reproduce.studies.linearized.pairs import Pair, Plan

FEW = replace(DESK_BINARY, task=replace(DESK_BINARY.task, n=500, n_test=1000), epochs=20, solve=False)
OTHER = 1000  # added to the seed of the pairs that the null compares with
DOUBLE, OTHER_SEED = "largest change by double precision", "largest change by another seed"


def largest_change(before: list[Pair], after: list[Pair]) -> float:
    """Largest absolute difference in test accuracy, over both models and all widths."""
    return max(
        max(abs(a.network[1] - b.network[1]), abs(a.linearised[1] - b.linearised[1]))
        for a, b in zip(before, after, strict=True)
    )


@study("lin.precision")
class Precision(Study):
    """Does double precision change what is found about linearised networks?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Pairs by width, from the same numbers in either precision."""

        plan: Plan = FEW
        widths: tuple[float, ...] = (0.25, 0.5)
        seed: int = 0

    scales = {
        "smoke": Config(plan=replace(SMOKE_BINARY, solve=False), widths=(0.25,)),
        "desk": Config(),
    }
    unit = "test accuracy"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Pairs of equal initial weights and order, twice; and of others."""
        double = replace(cfg.plan, double=True)
        single = pairs_by_width("single precision", cfg.plan, cfg.widths, seed=cfg.seed)
        others = pairs_by_width("another seed", cfg.plan, cfg.widths, seed=cfg.seed + OTHER)
        exact = pairs_by_width("double precision", double, cfg.widths, seed=cfg.seed)
        return {DOUBLE: largest_change(single, exact), OTHER_SEED: largest_change(single, others)}
