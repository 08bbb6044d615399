"""Study of the size of the training image."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK,
    PAPER,
    SMOKE,
    constant_on_unseen,
    grid,
    mean_constant,
    numbers,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask


@dataclass(frozen=True, kw_only=True)
class ImageSizeResult(Result):
    """Similarity to the constant by size of the training image and seed, and the loss reached."""

    sides: tuple[int, ...]
    over_rho: Float[Tensor, "sizes seeds"]
    unseen: Float[Tensor, "sizes seeds"]
    losses: Float[Tensor, "sizes seeds"]


@study("id.fig8.image_size")
class ImageSize:
    """Do smaller training images push a network of fixed depth to the constant map?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK
        depth: int = 14
        width: int = 16
        sides: tuple[int, ...] = (10, 14, 20, 28)
        n_seeds: int = 2
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, depth=2, width=4, sides=(6, 8)),
        "desk": Config(),
        "paper": Config(base=PAPER, width=128, sides=(7, 14, 21, 28), n_seeds=3),
    }

    @staticmethod
    def run(cfg: Config) -> ImageSizeResult:
        """Train at every size."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [
            [varied(cfg.base, s, depth=cfg.depth, width=cfg.width, image_size=side) for s in seeds]
            for side in cfg.sides
        ]
        runs = grid(rows, label="image size")
        return ImageSizeResult(
            sides=cfg.sides,
            over_rho=numbers(runs, mean_constant),
            unseen=numbers(runs, constant_on_unseen),
            losses=numbers(runs, lambda f: f.loss),
        )

    @staticmethod
    def figure(result: ImageSizeResult) -> Figure:
        """Over size."""
        return curves(
            [
                Curve(name="cosine, mean over the angles", values=result.over_rho.mT),
                Curve(name="Pearson, unseen images", values=result.unseen.mT, role="other"),
            ],
            title="Similarity to the constant by size of the training image",
            alt="Falls with size",
            x="side of the training image (pixels)",
            y="similarity to the constant",
            at=result.sides,
        )

    rules = {
        "id.fig8.image_size": Rule(
            measured=lambda r: {
                **{f"cosine, {s} px": float(v.mean()) for s, v in zip(r.sides, r.over_rho, strict=True)},
                **{f"Pearson, {s} px": float(v.mean()) for s, v in zip(r.sides, r.unseen, strict=True)},
                "largest loss": float(r.losses.max()),
            },
            spread=lambda r: {f"cosine, {s} px": sd(v) for s, v in zip(r.sides, r.over_rho, strict=True)},
            reproduced=lambda r: bool((r.over_rho.mean(1).diff() < 0).all()),
            partly=lambda r: (
                float(r.unseen[r.sides.index(14)].mean()) > float(r.unseen[r.sides.index(28)].mean())
            ),
        )
    }
