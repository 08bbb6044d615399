"""Study of stability over seeds and over the training image."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import DESK, PAPER, SMOKE, grid, mean_identity, numbers, varied
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask


@dataclass(frozen=True, kw_only=True)
class SeedsResult(Result):
    """Mean cosine to the identity, by depth and seed, and for other training digits."""

    depths: tuple[int, ...]
    by_depth: Float[Tensor, "depths seeds"]
    digits: tuple[str, ...]
    by_digit: Float[Tensor, "digits seeds"]


@study("id.fig36.seeds")
class SeedsAndDigits:
    """Is the outcome stable over seeds and over the training digit?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK
        depths: tuple[int, ...] = (1, 3, 5, 7, 10, 14, 20)
        digits: tuple[str, ...] = ("7", "3", "0")
        digit_depth: int = 3
        n_seeds: int = 3
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, depths=(1, 3), digits=("coffee", "rocket"), n_seeds=2),
        "desk": Config(),
        "paper": Config(base=PAPER),
    }

    @staticmethod
    def run(cfg: Config) -> SeedsResult:
        """Train and compare."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [[varied(cfg.base, s, depth=d) for s in seeds] for d in cfg.depths]
        rows += [
            [varied(cfg.base, s, depth=cfg.digit_depth, labels=(digit,)) for s in seeds]
            for digit in cfg.digits
        ]
        values = numbers(grid(rows, label="seeds and digits"), mean_identity)
        n = len(cfg.depths)
        return SeedsResult(depths=cfg.depths, by_depth=values[:n], digits=cfg.digits, by_digit=values[n:])

    @staticmethod
    def figure(result: SeedsResult) -> Figure:
        """Range over seeds by depth."""
        return curves(
            [Curve(name="cosine to the identity", values=result.by_depth.mT)],
            title="Stability over seeds",
            alt="The range over seeds at every depth",
            x="layers",
            y="mean cosine over the angles",
            at=result.depths,
        )

    rules = {
        "id.fig36.seeds": Rule(
            measured=lambda r: {
                **{f"sd, {d} layers": float(v.std()) for d, v in zip(r.depths, r.by_depth, strict=True)},
                "sd over seeds and digits, 3 layers": float(r.by_digit.std()),
                **{f"digit {d}": float(v.mean()) for d, v in zip(r.digits, r.by_digit, strict=True)},
            },
            reproduced=lambda r: float(r.by_depth.std(1).max()) < 0.1 and float(r.by_digit.std()) < 0.1,
            partly=lambda r: float(r.by_digit.std()) < 0.1,
        )
    }
