"""Study of a two-layer network of which only the bottom is trained."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK_FCN,
    PAPER_FCN,
    SMOKE_FCN,
    constant_at_zero,
    grid,
    numbers,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask


@dataclass(frozen=True, kw_only=True)
class BottomOnlyResult(Result):
    """Cosine to the constant at rho = 0, and the loss, one entry per seed."""

    both: Float[Tensor, " seeds"]
    bottom: Float[Tensor, " seeds"]
    both_loss: Float[Tensor, " seeds"]
    bottom_loss: Float[Tensor, " seeds"]


@study("id.fig12.bottom_only")
class BottomOnly:
    """Does training only the bottom of two layers leave noise where training both leans to the constant?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_FCN
        bottom_lr: float = 0.1  # the bottom alone learns slowly
        bottom_steps: int = 600
        n_seeds: int = 2
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE_FCN, bottom_steps=4),
        "desk": Config(),
        "paper": Config(base=PAPER_FCN, bottom_lr=0.01, bottom_steps=2_000_000, n_seeds=3),
    }

    @staticmethod
    def run(cfg: Config) -> BottomOnlyResult:
        """Train both ways from the same weights."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        changes = {"depth": 2, "frozen": ("fc2",), "lr": cfg.bottom_lr, "steps": cfg.bottom_steps}
        rows = [
            [varied(cfg.base, s, depth=2) for s in seeds],
            [varied(cfg.base, s, **changes) for s in seeds],
        ]
        runs = grid(rows, label="bottom only")
        cosines, losses = numbers(runs, constant_at_zero), numbers(runs, lambda f: f.loss)
        return BottomOnlyResult(
            both=cosines[0], bottom=cosines[1], both_loss=losses[0], bottom_loss=losses[1]
        )

    @staticmethod
    def figure(result: BottomOnlyResult) -> Figure:
        """Both, seed by seed."""
        return curves(
            [
                Curve(name="both layers", values=result.both[None]),
                Curve(name="bottom only", values=result.bottom[None], role="other"),
            ],
            title="Two layers, one or both trained",
            alt="Networks with both layers trained lie above",
            x="seed",
            y="cosine to the constant at rho = 0",
        )

    rules = {
        "id.fig12.bottom_only": Rule(
            measured=lambda r: {
                "both layers": float(r.both.mean()),
                "bottom only": float(r.bottom.mean()),
                "loss, bottom only": float(r.bottom_loss.mean()),
            },
            spread=lambda r: {"both layers": sd(r.both), "bottom only": sd(r.bottom)},
            reproduced=lambda r: float(r.both.mean()) > float(r.bottom.mean()) + 0.2,
            partly=lambda r: float(r.both.mean()) > float(r.bottom.mean()) + 0.2,
        )
    }
