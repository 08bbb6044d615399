"""Study of the size of the filters."""

from dataclasses import dataclass

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
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask


@dataclass(frozen=True, kw_only=True)
class FilterSizeResult(Result):
    """Similarity to both references by filter size and seed."""

    kernels: tuple[int, ...]
    identity: Float[Tensor, "kernels seeds"]
    constant: Float[Tensor, "kernels seeds"]
    unseen_identity: Float[Tensor, "kernels seeds"]
    unseen_constant: Float[Tensor, "kernels seeds"]


@study("id.fig9.filter_size")
class FilterSize:
    """Do filters that cover the image favour the constant map?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK
        depth: int = 3
        width: int = 8
        initialiser: str = "xavier_normal"
        kernels: tuple[int, ...] = (5, 13, 29)  # the last covers a 14 x 14 image from every pixel
        steps: int = 800
        stop_below: float | None = 1e-4
        n_seeds: int = 2
        seed: int = 0

    scales = {  # noqa: RUF012
        "smoke": Config(base=SMOKE, width=2, kernels=(3, 9), steps=4),
        "desk": Config(),
        "paper": Config(
            base=PAPER,
            depth=5,
            width=128,
            initialiser="default",
            kernels=(5, 7, 9, 13, 17, 25, 29, 57),
            steps=2_000_000,
            stop_below=None,
            n_seeds=3,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> FilterSizeResult:
        """Train with every filter size."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        settings = {
            "depth": cfg.depth,
            "width": cfg.width,
            "initialiser": cfg.initialiser,
            "steps": cfg.steps,
            "stop_below": cfg.stop_below,
        }
        rows = [[varied(cfg.base, s, kernel=k, **settings) for s in seeds] for k in cfg.kernels]
        runs = grid(rows, label="filter size")
        return FilterSizeResult(
            kernels=cfg.kernels,
            identity=numbers(runs, mean_identity),
            constant=numbers(runs, mean_constant),
            unseen_identity=numbers(runs, identity_on_unseen),
            unseen_constant=numbers(runs, constant_on_unseen),
        )

    @staticmethod
    def figure(result: FilterSizeResult) -> Figure:
        """Over filter size."""
        return curves(
            [
                Curve(name="to the constant", values=result.constant.mT),
                Curve(name="to the identity", values=result.identity.mT, role="random labels"),
            ],
            title="Similarity by filter size, mean over the angles",
            alt="Identity falls and constant rises with the size of the filters",
            x="side of the filters",
            y="cosine",
            at=result.kernels,
        )

    rules = {  # noqa: RUF012
        "id.fig9.filter_size": Rule(
            measured=lambda r: {
                **{f"constant, {k}": float(v.mean()) for k, v in zip(r.kernels, r.constant, strict=True)},
                **{f"identity, {k}": float(v.mean()) for k, v in zip(r.kernels, r.identity, strict=True)},
                "constant on unseen, largest filter": float(r.unseen_constant[-1].mean()),
                "identity on unseen, largest filter": float(r.unseen_identity[-1].mean()),
            },
            spread=lambda r: {f"constant, {k}": sd(v) for k, v in zip(r.kernels, r.constant, strict=True)},
            reproduced=lambda r: float(r.constant[-1].mean()) > float(r.constant[0].mean()),
            partly=lambda r: (
                float(r.identity[0].mean()) > float(r.identity[-1].mean())
                and float(r.constant[-1].mean()) > float(r.constant[0].mean())
            ),
        )
    }
