"""Study of the constant map inside a deep network: sizes, upper layers, borders."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import DESK, PAPER, SMOKE, grid, sd, varied
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityRun, IdentityTask
from firstlight.measures.identity import (
    image_outputs,
    similarities,
    size_response,
    upper_outputs,
    with_circular_padding,
)


@dataclass(frozen=True, kw_only=True)
class DeepConstantResult(Result):
    """What a deep network that memorised does to other sizes, in its upper layers, without borders."""

    trained_side: int
    sides: tuple[int, ...]
    variation: Float[Tensor, "seeds sizes"]
    untrained_variation: Float[Tensor, " sizes"]
    layers: tuple[int, ...]
    upper: Float[Tensor, "seeds layers"]
    untrained_upper: Float[Tensor, " layers"]
    zero_padding: Float[Tensor, " seeds"]
    circular: Float[Tensor, " seeds"]

    @property
    def near(self) -> float:
        """Largest variation over inputs within two pixels of the trained size, mean over seeds."""
        close = [i for i, s in enumerate(self.sides) if abs(s - self.trained_side) <= 2]
        return float(self.variation[:, close].mean(0).max())


def _constant(model: torch.nn.Module, images: Tensor, target: Tensor) -> float:
    outputs = image_outputs(model, images)
    return float(similarities(outputs, target.expand_as(outputs)).mean())


def _upper(model: torch.nn.Module, images: Tensor, target: Tensor, layers: tuple[int, ...]) -> list[float]:
    outputs = [upper_outputs(model, images, layers=k) for k in layers]
    return [float(similarities(o, target.expand_as(o)).mean()) for o in outputs]


@study("id.fig7.constant_sizes", "id.fig22.upper_subnets", "id.fig21.boundary_growth")
class DeepConstant:
    """Where in a deep network, and from which cues, does the memorised image come?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK
        depth: int = 20
        sides: tuple[int, ...] = (10, 12, 13, 14, 15, 16, 20, 24)
        layers: tuple[int, ...] = (1, 2, 3, 6, 10)
        n_seeds: int = 3
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, depth=3, sides=(6, 8, 10), layers=(1, 2), n_seeds=2),
        "desk": Config(),
        "paper": Config(base=PAPER, sides=(7, 14, 26, 28, 30, 56, 112)),
    }

    @staticmethod
    def run(cfg: Config) -> DeepConstantResult:
        """Probe the trained networks."""
        tasks = [varied(cfg.base, s, depth=cfg.depth) for s in range(cfg.seed, cfg.seed + cfg.n_seeds)]
        (runs,) = grid([tasks], label="deep networks")
        images, layers = tasks[0].images, cfg.layers
        target, probes = images.training[:1], torch.cat([images.unseen, images.patterns])
        fresh = tasks[0].build()

        def rows(read: "list[Tensor]") -> Tensor:
            return torch.stack(read)

        def variation(run: IdentityRun) -> Tensor:
            return size_response(run.model, images.unseen, cfg.sides).variation

        return DeepConstantResult(
            trained_side=cfg.base.image_size,
            sides=cfg.sides,
            variation=rows([variation(run) for run in runs]),
            untrained_variation=size_response(fresh, images.unseen, cfg.sides).variation,
            layers=layers,
            upper=rows([torch.tensor(_upper(run.model, probes, target, layers)) for run in runs]),
            untrained_upper=torch.tensor(_upper(fresh, probes, target, layers)),
            zero_padding=torch.tensor([_constant(run.model, images.unseen, target) for run in runs]),
            circular=torch.tensor(
                [_constant(with_circular_padding(run.model), images.unseen, target) for run in runs]
            ),
        )

    @staticmethod
    def figure(result: DeepConstantResult) -> Figure:
        """Upper sub-networks."""
        return curves(
            [
                Curve(name="trained", values=result.upper),
                Curve(name="untrained", values=result.untrained_upper[None], role="null"),
            ],
            title="What the top layers alone draw from arbitrary inputs",
            alt="Similarity to the training image grows with the number of top layers",
            x="top layers",
            y="Pearson to the training image",
            at=result.layers,
        )

    rules = {
        "id.fig7.constant_sizes": Rule(
            measured=lambda r: {
                "largest variation within 2 px of the trained size": r.near,
                **{f"{s} px": float(v) for s, v in zip(r.sides, r.variation.mean(0), strict=True)},
            },
            spread=lambda r: {f"{s} px": sd(v) for s, v in zip(r.sides, r.variation.mT, strict=True)},
            null=lambda r: {
                f"untrained, {s} px": float(v) for s, v in zip(r.sides, r.untrained_variation, strict=True)
            },
            reproduced=lambda r: r.near < 0.2,
            partly=lambda r: r.near < 0.3,
        ),
        "id.fig22.upper_subnets": Rule(
            measured=lambda r: {f"top {k}": float(v) for k, v in zip(r.layers, r.upper.mean(0), strict=True)},
            spread=lambda r: {f"top {k}": sd(v) for k, v in zip(r.layers, r.upper.mT, strict=True)},
            null=lambda r: {
                f"untrained, top {k}": float(v) for k, v in zip(r.layers, r.untrained_upper, strict=True)
            },
            reproduced=lambda r: float(r.upper[:, -1].mean()) > 0.5,
            partly=lambda r: float(r.upper[:, -1].mean()) > 0.3,
        ),
        "id.fig21.boundary_growth": Rule(
            measured=lambda r: {
                "zero padding": float(r.zero_padding.mean()),
                "circular padding": float(r.circular.mean()),
            },
            spread=lambda r: {"zero padding": sd(r.zero_padding), "circular padding": sd(r.circular)},
            reproduced=lambda r: float((r.zero_padding - r.circular).mean()) > 0.3,
            partly=lambda r: float((r.zero_padding - r.circular).mean()) > 0.3,
        ),
    }
