"""Study of single colour images."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK,
    DESK_28,
    DESK_FCN,
    PAPER,
    PAPER_FCN,
    SMOKE,
    SMOKE_FCN,
    constant_at_zero,
    constant_on_unseen,
    grid,
    identity_at_zero,
    identity_on_unseen,
    numbers,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask

CNN_32 = varied(DESK_28, 0, image_size=32)
FCN_32 = varied(DESK_FCN, 0, image_size=32, width=512)


@dataclass(frozen=True, kw_only=True)
class ColourResult(Result):
    """The inequalities of the digit studies, on one natural image; one entry per seed."""

    shallow_cnn: Float[Tensor, " seeds"]
    deep_cnn_constant: Float[Tensor, " nets"]
    deep_cnn_identity: Float[Tensor, " nets"]
    deep_fcn_constant: Float[Tensor, " seeds"]
    shallow_fcn_identity: Float[Tensor, " seeds"]
    shallow_fcn_constant: Float[Tensor, " seeds"]
    untrained_cnn: float


@study("id.fig42.cifar")
class Colour:
    """Does depth do to a single colour image what it does to a digit?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        dataset: str = "cifar10"
        cnn: IdentityTask = CNN_32
        fcn: IdentityTask = FCN_32
        deep: IdentityTask = DESK  # deep networks reach the constant at 14 x 14
        shallow_depth: int = 3
        deep_depth: int = 20
        fcn_depth: int = 4
        n_seeds: int = 2
        seed: int = 0

    scales = {
        "smoke": Config(
            dataset="photos", cnn=SMOKE, fcn=SMOKE_FCN, deep=SMOKE, shallow_depth=2, deep_depth=3, fcn_depth=2
        ),
        "desk": Config(),
        "paper": Config(
            cnn=varied(PAPER, 0, image_size=32),
            fcn=varied(PAPER_FCN, 0, image_size=32, width=3072),
            deep=varied(PAPER, 0, image_size=32),
            n_seeds=3,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> ColourResult:
        """Train all four."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [
            [varied(cfg.cnn, s, dataset=cfg.dataset, depth=cfg.shallow_depth) for s in seeds],
            [varied(cfg.deep, cfg.seed, dataset=cfg.dataset, depth=cfg.deep_depth)],
            [varied(cfg.fcn, s, dataset=cfg.dataset, depth=cfg.fcn_depth) for s in seeds],
            [varied(cfg.fcn, s, dataset=cfg.dataset, depth=1) for s in seeds],
        ]
        runs = grid(rows, label="colour")
        return ColourResult(
            shallow_cnn=numbers(runs[:1], identity_on_unseen)[0],
            deep_cnn_constant=numbers(runs[1:2], constant_on_unseen)[0],
            deep_cnn_identity=numbers(runs[1:2], identity_on_unseen)[0],
            deep_fcn_constant=numbers(runs[2:3], constant_at_zero)[0],
            shallow_fcn_identity=numbers(runs[3:], identity_at_zero)[0],
            shallow_fcn_constant=numbers(runs[3:], constant_at_zero)[0],
            untrained_cnn=runs[0][0].found.untrained,
        )

    @staticmethod
    def figure(result: ColourResult) -> Figure:
        """Shallow CNN and deep FCN."""
        return curves(
            [
                Curve(name="shallow CNN, to the identity (Pearson)", values=result.shallow_cnn[None]),
                Curve(
                    name="deep FCN, to the constant (cosine)",
                    values=result.deep_fcn_constant[None],
                    role="other",
                ),
            ],
            title="One colour image",
            alt="Both near 1",
            x="seed",
            y="similarity",
        )

    rules = {
        "id.fig42.cifar": Rule(
            measured=lambda r: {
                "shallow CNN, identity": float(r.shallow_cnn.mean()),
                "deep CNN, constant": float(r.deep_cnn_constant.mean()),
                "deep CNN, identity": float(r.deep_cnn_identity.mean()),
                "deep FCN, constant": float(r.deep_fcn_constant.mean()),
                "one-layer FCN, identity": float(r.shallow_fcn_identity.mean()),
                "one-layer FCN, constant": float(r.shallow_fcn_constant.mean()),
            },
            spread=lambda r: {
                "shallow CNN, identity": sd(r.shallow_cnn),
                "deep FCN, constant": sd(r.deep_fcn_constant),
            },
            null=lambda r: {"shallow CNN, untrained": r.untrained_cnn},
            reproduced=lambda r: (
                float(r.shallow_cnn.mean()) > 0.9
                and float(r.deep_cnn_constant.mean()) > max(0.8, float(r.deep_cnn_identity.mean()))
                and float(r.deep_fcn_constant.mean()) > 0.8
                and abs(float(r.shallow_fcn_identity.mean())) < 0.1
                and abs(float(r.shallow_fcn_constant.mean())) < 0.1
            ),
            partly=lambda r: float(r.shallow_cnn.mean()) > 0.8 and float(r.deep_fcn_constant.mean()) > 0.8,
        )
    }
