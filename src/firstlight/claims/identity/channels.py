"""Study of the number of channels: too few, and very many."""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK,
    DESK_28,
    PAPER,
    SMOKE,
    constant_on_unseen,
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
class ChannelsResult(Result):
    """Pearson on unseen images with few, usual and many channels."""

    few: Float[Tensor, " seeds"]
    usual: Float[Tensor, " seeds"]
    few_deep_loss: Float[Tensor, " two"]
    usual_small: Float[Tensor, " two"]
    many: Float[Tensor, " two"]
    many_deep_constant: float
    many_deep_identity: float


@study("id.fig10.channels_few", "id.fig10.channels_many")
class Channels:
    """Are three channels too few, and do very many spoil or rescue anything?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_28  # for few channels, 5 layers
        small: IdentityTask = DESK  # for many channels
        few: int = 3
        usual: int = 16
        many: int = 64
        few_depth: int = 9
        deep: int = 20
        n_seeds: int = 3
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, small=SMOKE, many=6, few_depth=3, deep=3, n_seeds=2),
        "desk": Config(),
        "paper": Config(base=PAPER, small=PAPER, usual=128, many=1024),
    }

    @staticmethod
    def run(cfg: Config) -> ChannelsResult:
        """Train all widths."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        two = list(seeds)[:2]
        rows = [
            [varied(cfg.base, s, depth=5, width=cfg.few) for s in seeds],
            [varied(cfg.base, s, depth=5, width=cfg.usual) for s in seeds],
            [varied(cfg.base, s, depth=cfg.few_depth, width=cfg.few) for s in two],
            [varied(cfg.small, s, depth=5, width=cfg.usual) for s in two],
            [varied(cfg.small, s, depth=5, width=cfg.many) for s in two],
            [varied(cfg.small, cfg.seed, depth=cfg.deep, width=cfg.many)],
        ]
        runs = grid(rows, label="channels")
        few, usual = numbers(runs[:2], identity_on_unseen)
        usual_small, many = numbers(runs[3:5], identity_on_unseen)
        return ChannelsResult(
            few=few,
            usual=usual,
            few_deep_loss=numbers(runs[2:3], lambda f: f.loss)[0],
            usual_small=usual_small,
            many=many,
            many_deep_constant=constant_on_unseen(runs[5][0].found),
            many_deep_identity=identity_on_unseen(runs[5][0].found),
        )

    @staticmethod
    def figure(result: ChannelsResult) -> Figure:
        """Few against usual."""
        return curves(
            [
                Curve(name="few channels", values=result.few[None], role="other"),
                Curve(name="usual", values=result.usual[None]),
            ],
            title="Five layers with few and with usual channels",
            alt="Pearson to the identity, seed by seed",
            x="seed",
            y="Pearson to the identity",
        )

    rules = {
        "id.fig10.channels_few": Rule(
            measured=lambda r: {
                "few": float(r.few.mean()),
                "usual": float(r.usual.mean()),
                "loss of 3 channels, deeper than 8": float(r.few_deep_loss.mean()),
            },
            spread=lambda r: {"few": sd(r.few), "usual": sd(r.usual)},
            reproduced=lambda r: (
                float(r.few.mean()) < float(r.usual.mean()) - 0.1 and float(r.few_deep_loss.min()) > 1e-3
            ),
            partly=lambda r: float(r.usual.mean()) > float(r.few.mean()),
        ),
        "id.fig10.channels_many": Rule(
            measured=lambda r: {
                "identity, 5 layers, many": float(r.many.mean()),
                "identity, 5 layers, usual": float(r.usual_small.mean()),
                "constant, deep, many": r.many_deep_constant,
                "identity, deep, many": r.many_deep_identity,
            },
            spread=lambda r: {"identity, 5 layers, many": sd(r.many)},
            reproduced=lambda r: float(r.many.mean()) > 0.9 and r.many_deep_constant > 0.8,
            partly=lambda r: float(r.many.mean()) >= float(r.usual_small.mean()) - 0.05,
            note="64 channels stand for 1024 on a desk",
        ),
    }
