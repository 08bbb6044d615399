"""Study of skip connections in fully connected networks."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK_FCN,
    PAPER_FCN,
    SMOKE_FCN,
    grid,
    identity_on_unseen,
    numbers,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask


@dataclass(frozen=True, kw_only=True)
class ResidualResult(Result):
    """Pearson to the identity on unseen images, by number of blocks and seed."""

    blocks: tuple[int, ...]
    residual: Float[Tensor, "blocks seeds"]
    plain: Float[Tensor, "blocks seeds"]
    untrained: Float[Tensor, "blocks seeds"]


@study("id.fig41.residual")
class Residual:
    """Do identity skips bias fully connected networks to the identity?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_FCN
        blocks: tuple[int, ...] = (1, 2, 4)  # of two weight layers each
        n_seeds: int = 2
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE_FCN, blocks=(1, 2)),
        "desk": Config(),
        "paper": Config(base=PAPER_FCN, n_seeds=3),
    }

    @staticmethod
    def run(cfg: Config) -> ResidualResult:
        """Train residual and plain networks of equal depth."""
        seeds, n = range(cfg.seed, cfg.seed + cfg.n_seeds), len(cfg.blocks)
        rows = [[varied(cfg.base, s, family="residual_fcn", depth=b) for s in seeds] for b in cfg.blocks]
        rows += [[varied(cfg.base, s, depth=2 * b) for s in seeds] for b in cfg.blocks]
        runs = grid(rows, label="residual")
        return ResidualResult(
            blocks=cfg.blocks,
            residual=numbers(runs[:n], identity_on_unseen),
            plain=numbers(runs[n:], identity_on_unseen),
            untrained=numbers(runs[:n], lambda f: f.untrained),
        )

    @staticmethod
    def figure(result: ResidualResult) -> Figure:
        """Pearson over blocks."""
        return curves(
            [
                Curve(name="residual", values=result.residual.mT),
                Curve(name="plain, as deep", values=result.plain.mT, role="other"),
                Curve(name="residual, untrained", values=result.untrained.mT, role="null"),
            ],
            title="Skip connections and the identity",
            alt="Residual networks stay near the identity, plain ones do not",
            x="blocks",
            y="Pearson to the identity",
            at=result.blocks,
        )

    rules = {
        "id.fig41.residual": Rule(
            measured=lambda r: {
                **{f"residual, {b}": float(v.mean()) for b, v in zip(r.blocks, r.residual, strict=True)},
                **{f"plain, {b}": float(v.mean()) for b, v in zip(r.blocks, r.plain, strict=True)},
            },
            spread=lambda r: {f"residual, {b}": sd(v) for b, v in zip(r.blocks, r.residual, strict=True)},
            null=lambda r: {
                f"untrained, {b}": float(v.mean()) for b, v in zip(r.blocks, r.untrained, strict=True)
            },
            reproduced=lambda r: (
                bool((r.residual.mean(1) > r.plain.mean(1) + 0.4).all())
                and bool((r.residual.mean(1).diff() < 0).all())
            ),
            partly=lambda r: bool((r.residual.mean(1) > r.plain.mean(1) + 0.3).all()),
        )
    }
