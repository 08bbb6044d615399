"""Study of fully connected networks: noise when shallow, the training image when deep."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK_FCN,
    PAPER_FCN,
    SMOKE_FCN,
    constant_at_zero,
    grid,
    identity_at_zero,
    numbers,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask
from firstlight.measures.identity import response


@dataclass(frozen=True, kw_only=True)
class FcnDepthResult(Result):
    """Cosines on images orthogonal to the training image, by depth and seed."""

    depths: tuple[int, ...]
    relu_constant: Float[Tensor, "depths seeds"]
    relu_identity: Float[Tensor, "depths seeds"]
    linear_constant: Float[Tensor, "depths seeds"]
    narrow_constant: Float[Tensor, " seeds"]
    untrained_constant: Float[Tensor, " depths"]
    losses: Float[Tensor, "depths seeds"]

    def relu(self, depth: int) -> float:
        """Mean cosine of the ReLU network to the constant."""
        return float(self.relu_constant[self.depths.index(depth)].mean())

    def linear(self, depth: int) -> float:
        """Mean cosine of the linear network to the constant."""
        return float(self.linear_constant[self.depths.index(depth)].mean())


@study("id.fig2.shallow_fcn", "id.fig2.deep_fcn", "id.fig11.linear_deep", "id.fig14.relu_sooner")
class FcnDepth:
    """Do fully connected networks turn from noise to the constant map as they get deeper?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_FCN
        depths: tuple[int, ...] = (1, 2, 4, 6)  # weight layers; 4 is three hidden layers
        narrow: int = 392  # width of the second family of linear networks, 4 layers deep
        n_seeds: int = 2
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE_FCN, narrow=8),
        "desk": Config(),
        "paper": Config(base=PAPER_FCN, narrow=784, n_seeds=3),
    }

    @staticmethod
    def run(cfg: Config) -> FcnDepthResult:
        """Train both families at every depth."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)

        def family(name: str) -> list[list[IdentityTask]]:
            return [[varied(cfg.base, s, family=name, depth=d) for s in seeds] for d in cfg.depths]

        narrow = [[varied(cfg.base, s, family="linear_fcn", depth=4, width=cfg.narrow) for s in seeds]]
        runs = grid([*family("fcn"), *family("linear_fcn"), *narrow], label="fully connected")
        n = len(cfg.depths)
        untrained = [response(row[0].build(), row[0].images.training[0]).constant[0] for row in family("fcn")]
        return FcnDepthResult(
            depths=cfg.depths,
            relu_constant=numbers(runs[:n], constant_at_zero),
            relu_identity=numbers(runs[:n], identity_at_zero),
            linear_constant=numbers(runs[n : 2 * n], constant_at_zero),
            narrow_constant=numbers(runs[-1:], constant_at_zero)[0],
            untrained_constant=torch.stack(untrained),
            losses=numbers(runs[:n], lambda f: f.loss),
        )

    @staticmethod
    def figure(result: FcnDepthResult) -> Figure:
        """Cosine to the constant over depth."""
        return curves(
            [
                Curve(name="ReLU, to the constant", values=result.relu_constant.mT),
                Curve(name="linear, to the constant", values=result.linear_constant.mT, role="other"),
                Curve(name="ReLU, to the identity", values=result.relu_identity.mT, role="random labels"),
                Curve(name="untrained", values=result.untrained_constant[None], role="null"),
            ],
            title="Fully connected networks on images orthogonal to the training image",
            alt="Similarity to the constant rises with depth, sooner with ReLU",
            x="weight layers",
            y="cosine",
            at=result.depths,
        )

    rules = {
        "id.fig2.shallow_fcn": Rule(
            measured=lambda r: {
                "cosine to identity": float(r.relu_identity[0].mean()),
                "cosine to constant": float(r.relu_constant[0].mean()),
            },
            spread=lambda r: {
                "cosine to identity": sd(r.relu_identity[0]),
                "cosine to constant": sd(r.relu_constant[0]),
            },
            null=lambda r: {"untrained, to constant": float(r.untrained_constant[0])},
            reproduced=lambda r: max(abs(r.relu_identity[0].mean()), abs(r.relu_constant[0].mean())) < 0.1,
            partly=lambda r: max(abs(r.relu_identity[0].mean()), abs(r.relu_constant[0].mean())) < 0.1,
            note="one layer by the closed form of gradient descent",
        ),
        "id.fig2.deep_fcn": Rule(
            measured=lambda r: {
                "cosine to constant, 4 layers": r.relu(4),
                "cosine to identity, 4 layers": float(r.relu_identity[r.depths.index(4)].mean()),
            },
            spread=lambda r: {"cosine to constant, 4 layers": sd(r.relu_constant[r.depths.index(4)])},
            null=lambda r: {"untrained, to constant": float(r.untrained_constant[r.depths.index(4)])},
            reproduced=lambda r: r.relu(4) > 0.8,
            partly=lambda r: r.relu(4) > 0.9 and float(r.relu_identity[r.depths.index(4)].mean()) < 0.1,
        ),
        "id.fig11.linear_deep": Rule(
            measured=lambda r: {
                **{f"{d} layers": r.linear(d) for d in r.depths},
                "4 layers, half as wide": float(r.narrow_constant.mean()),
            },
            spread=lambda r: {
                f"{d} layers": sd(row) for d, row in zip(r.depths, r.linear_constant, strict=True)
            },
            reproduced=lambda r: bool((r.linear_constant.mean(1).diff() > 0).all()),
            partly=lambda r: r.linear(6) - r.linear(1) > 0.3,
        ),
        "id.fig14.relu_sooner": Rule(
            measured=lambda r: {"ReLU, 4": r.relu(4), "linear, 4": r.linear(4), "linear, 6": r.linear(6)},
            spread=lambda r: {"ReLU, 4": sd(r.relu_constant[r.depths.index(4)])},
            reproduced=lambda r: r.relu(4) > r.linear(4),
            partly=lambda r: r.relu(4) > r.linear(6),
        ),
    }
