"""Study of depth in convolutional networks: from the identity to the constant."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK,
    PAPER,
    SMOKE,
    constant_on_unseen,
    grid,
    identity_on_unseen,
    mean_constant,
    mean_identity,
    numbers,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Figure, heatmap
from firstlight.insights import IdentityTask
from firstlight.maths import spearman
from firstlight.measures.identity import response


@dataclass(frozen=True, kw_only=True)
class CnnDepthResult(Result):
    """Similarity to both references by depth and seed, and over the angle."""

    depths: tuple[int, ...]
    rhos: Float[Tensor, " r"]
    identity: Float[Tensor, "depths seeds"]
    constant: Float[Tensor, "depths seeds"]
    over_rho: Float[Tensor, "depths r"]
    unseen_identity: Float[Tensor, "depths seeds"]
    unseen_constant: Float[Tensor, "depths seeds"]
    untrained_constant: float

    def trend(self, values: Float[Tensor, "depths seeds"]) -> float:
        """Spearman correlation of the mean over seeds with depth."""
        depths = torch.tensor(self.depths, dtype=torch.float64)
        return float(spearman(depths, values.mean(1)))


@study("id.fig3.deep_cnn", "id.fig4.depth_monotone")
class CnnDepth:
    """Does a convolutional network turn from the identity to the constant map as it gets deeper?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK
        depths: tuple[int, ...] = (1, 3, 5, 7, 10, 14, 20)
        n_seeds: int = 3
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, depths=(1, 3, 5), n_seeds=2),
        "desk": Config(),
        "paper": Config(base=PAPER, depths=(1, 3, *range(5, 18), 19, 20, 24)),
    }

    @staticmethod
    def run(cfg: Config) -> CnnDepthResult:
        """Train every depth."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [[varied(cfg.base, s, depth=d) for s in seeds] for d in cfg.depths]
        runs = grid(rows, label="depth")
        deepest = rows[-1][0]
        curve = [torch.stack([r.found.response.identity for r in row]).mean(0) for row in runs]
        return CnnDepthResult(
            depths=cfg.depths,
            rhos=runs[0][0].found.response.rhos,
            identity=numbers(runs, mean_identity),
            constant=numbers(runs, mean_constant),
            over_rho=torch.stack(curve),
            unseen_identity=numbers(runs, identity_on_unseen),
            unseen_constant=numbers(runs, constant_on_unseen),
            untrained_constant=float(response(deepest.build(), deepest.images.training[0]).constant.mean()),
        )

    @staticmethod
    def figure(result: CnnDepthResult) -> Figure:
        """The heat map of depth against angle."""
        return heatmap(
            result.over_rho,
            rows=[f"{d} layers" for d in result.depths],
            columns=[f"{r:.1f}" for r in result.rhos.tolist()],
            title="Cosine to the identity, by depth and angle to the training image",
            alt="High for shallow networks at all angles, for deep ones near the training image only",
            x="cosine of test and training image",
            y="depth",
        )

    rules = {
        "id.fig3.deep_cnn": Rule(
            measured=lambda r: {
                "Pearson to constant, deepest": float(r.unseen_constant[-1].mean()),
                "Pearson to identity, deepest": float(r.unseen_identity[-1].mean()),
            },
            spread=lambda r: {"Pearson to constant, deepest": sd(r.unseen_constant[-1])},
            null=lambda r: {"untrained, cosine to constant": r.untrained_constant},
            reproduced=lambda r: (
                float(r.unseen_constant[-1].mean()) > 0.8
                and float(r.unseen_constant[-1].mean()) > float(r.unseen_identity[-1].mean())
            ),
            partly=lambda r: bool(
                ((r.unseen_constant[-1] > 0.7) & (r.unseen_constant[-1] > r.unseen_identity[-1])).all()
            ),
        ),
        "id.fig4.depth_monotone": Rule(
            measured=lambda r: {
                "Spearman of identity with depth": r.trend(r.identity),
                "Spearman of constant with depth": r.trend(r.constant),
                **{f"identity, {d}": float(v.mean()) for d, v in zip(r.depths, r.identity, strict=True)},
                **{f"constant, {d}": float(v.mean()) for d, v in zip(r.depths, r.constant, strict=True)},
            },
            spread=lambda r: {
                **{f"identity, {d}": sd(v) for d, v in zip(r.depths, r.identity, strict=True)},
                **{f"constant, {d}": sd(v) for d, v in zip(r.depths, r.constant, strict=True)},
            },
            null=lambda r: {"untrained deepest, to constant": r.untrained_constant},
            reproduced=lambda r: r.trend(r.identity) < -0.8 and r.trend(r.constant) > 0.8,
            partly=lambda r: (
                float((r.identity[r.depths.index(3)] - r.identity[-1]).mean()) > 0.2
                and float((r.constant[-1] - r.constant[r.depths.index(3)]).mean()) > 0.1
            ),
        ),
    }
