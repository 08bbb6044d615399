"""Study of two and three training images: are answers mixtures of them?"""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK,
    DESK_FCN,
    PAPER,
    PAPER_FCN,
    SMOKE,
    SMOKE_FCN,
    grid,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityRun, IdentityTask
from firstlight.measures.identity import image_outputs


@dataclass(frozen=True, kw_only=True)
class SeveralResult(Result):
    """R squared of answers to unseen images, regressed on the training images."""

    deep_two: Float[Tensor, " seeds"]
    deep_three: Float[Tensor, " seeds"]
    shallow: Float[Tensor, " seeds"]
    convolutional: Float[Tensor, " nets"]
    inputs: float


def explained(images: Float[Tensor, "n c h w"], training: Float[Tensor, "k c h w"]) -> float:
    """Mean R squared of images regressed on training images and a constant."""
    y = images.double().flatten(1).mT
    design = torch.cat([training.double().flatten(1).mT, torch.ones(len(y), 1, dtype=torch.float64)], 1)
    left = y - design @ torch.linalg.lstsq(design, y).solution
    total = (y - y.mean(0)).square().sum(0)
    alive = total > 0
    return float((1 - left.square().sum(0)[alive] / total[alive]).mean())


def _explained_by(run: IdentityRun) -> float:
    images = run.settings.images
    return explained(image_outputs(run.model, images.unseen), images.training)


@study("id.fig38.two_three")
class SeveralImages:
    """Do deep networks answer with mixtures of their two or three training images?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_FCN
        convolutional: IdentityTask = DESK
        depth: int = 4
        cnn_depth: int = 20
        n_seeds: int = 2
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE_FCN, convolutional=SMOKE, cnn_depth=2),
        "desk": Config(),
        "paper": Config(base=PAPER_FCN, convolutional=PAPER, depth=10, cnn_depth=24, n_seeds=3),
    }

    @staticmethod
    def run(cfg: Config) -> SeveralResult:
        """Train on two and on three images."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [
            [varied(cfg.base, s, depth=cfg.depth, examples=2) for s in seeds],
            [varied(cfg.base, s, depth=cfg.depth, examples=3) for s in seeds],
            [varied(cfg.base, s, depth=1, examples=2) for s in seeds],
            [varied(cfg.convolutional, cfg.seed, depth=cfg.cnn_depth, examples=2)],
        ]
        runs = grid(rows, label="two and three images")
        found = [torch.tensor([_explained_by(run) for run in row], dtype=torch.float64) for row in runs]
        images = rows[0][0].images
        return SeveralResult(
            deep_two=found[0],
            deep_three=found[1],
            shallow=found[2],
            convolutional=found[3],
            inputs=explained(images.unseen, images.training),
        )

    @staticmethod
    def figure(result: SeveralResult) -> Figure:
        """R squared seed by seed."""
        return curves(
            [
                Curve(name="deep, two images", values=result.deep_two[None]),
                Curve(name="deep, three images", values=result.deep_three[None], role="random labels"),
                Curve(name="one layer, two images", values=result.shallow[None], role="other"),
            ],
            title="How much of an answer is a mixture of the training images",
            alt="Deep networks answer with mixtures",
            x="seed",
            y="R squared",
        )

    rules = {
        "id.fig38.two_three": Rule(
            measured=lambda r: {
                "R2, deep, 2 images": float(r.deep_two.mean()),
                "R2, deep, 3 images": float(r.deep_three.mean()),
                "R2, one layer": float(r.shallow.mean()),
                "R2, deep CNN, 2 images": float(r.convolutional.mean()),
            },
            spread=lambda r: {"R2, deep, 2 images": sd(r.deep_two), "R2, deep, 3 images": sd(r.deep_three)},
            null=lambda r: {"R2 of the inputs themselves": r.inputs},
            reproduced=lambda r: (
                min(float(v.mean()) for v in (r.deep_two, r.deep_three, r.convolutional)) > 0.7
            ),
            partly=lambda r: float(r.deep_two.mean()) > 0.7,
        )
    }
