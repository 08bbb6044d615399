"""How fast linear networks fit true and shuffled labels."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import centred, images, one_hot
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation, ZCAWhitening, shuffled_labels
from firstlight.figures import Curve, Figure, curves
from firstlight.theory.deep_linear import columns_at, principal_moments
from firstlight.training import geometric_steps


@dataclass(frozen=True, kw_only=True)
class ShuffledSpeed(Result):
    """Training accuracy over time; rows are draws, conditions are natural and whitened."""

    steps: tuple[int, ...]
    true: Float[Tensor, "draws 2 t"]
    shuffled: Float[Tensor, "draws 2 t"]

    def times(self, rows: Float[Tensor, "draws 2 t"]) -> Float[Tensor, "draws 2"]:
        """Steps to 90 % of the own final accuracy."""
        reached = rows >= 0.9 * rows[:, :, -1:]
        return torch.tensor(self.steps).double()[reached.to(torch.uint8).argmax(2)]

    def ratios(self) -> Float[Tensor, "draws 2"]:
        """Shuffled over true, one step added to both."""
        return (self.times(self.shuffled) + 1) / (self.times(self.true) + 1)


@study("interv.fig10.slower", "interv.fig10.whitened")
class ShuffledLabelsSpeed:
    """Are shuffled labels fitted more slowly than true ones, and does whitening remove the difference?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """One layer, squared loss, closed form."""

        data: str = "cats_dogs"
        n: int = 600
        steps: int = 2000
        rate: float = 0.3  # of the stability limit 1 / d_1, in both conditions
        draws: int = 5
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(data="photos:coffee/flower", n=100, steps=100, draws=2),
        "desk": Config(),
        "paper": Config(n=10_000, steps=100_000, draws=10),
    }

    @staticmethod
    def run(cfg: Config) -> ShuffledSpeed:
        """Exact at every time, without iterating."""
        steps = (0, *geometric_steps(cfg.steps, count=200)[1:])
        true, shuffled = [], []
        for draw in range(cfg.draws):
            raw = images(cfg.data, "train", cfg.n, seed=cfg.seed + draw)
            natural = ChannelNormalisation.fit(raw).transform(raw)
            white = ZCAWhitening.fit(natural).transform(natural)
            pairs = [(d, shuffled_labels(d, seed=cfg.seed + draw)) for d in (natural, white)]
            true.append(torch.stack([_accuracy(a, cfg.rate, steps) for a, _ in pairs]))
            shuffled.append(torch.stack([_accuracy(b, cfg.rate, steps) for _, b in pairs]))
        return ShuffledSpeed(steps=steps, true=torch.stack(true), shuffled=torch.stack(shuffled))

    @staticmethod
    def figure(result: ShuffledSpeed) -> Figure:
        """Accuracy over time on natural and whitened images."""
        return curves(
            [
                Curve(name="true labels", values=result.true[:, 0, 1:]),
                Curve(name="shuffled labels", values=result.shuffled[:, 0, 1:], role="random labels"),
                Curve(name="true, whitened", values=result.true[:, 1, 1:], role="theory"),
                Curve(name="shuffled, whitened", values=result.shuffled[:, 1, 1:], role="null"),
            ],
            title="Fitting true and shuffled labels",
            alt="Training accuracy of a linear network against steps, four conditions",
            x="step",
            y="training accuracy",
            at=result.steps[1:],
            log_x=True,
        )

    rules: ClassVar = {
        "interv.fig10.slower": Rule(
            measured=lambda r: {
                "ratio": float(r.ratios()[:, 0].mean()),
                "true": float(r.times(r.true)[:, 0].mean()),
                "shuffled": float(r.times(r.shuffled)[:, 0].mean()),
            },
            reproduced=lambda r: float(r.ratios()[:, 0].mean()) > 3,
            partly=lambda r: float(r.ratios()[:, 0].mean()) > 3,
            spread=lambda r: {"ratio": float(r.ratios()[:, 0].std())},
            null=lambda r: {
                "accuracy at the end, true": float(r.true[:, 0, -1].mean()),
                "accuracy at the end, shuffled": float(r.shuffled[:, 0, -1].mean()),
                "accuracy at the start": float(r.true[:, 0, 0].mean()),
            },
        ),
        "interv.fig10.whitened": Rule(
            measured=lambda r: {"ratio": float(r.ratios()[:, 1].mean())},
            reproduced=lambda r: float(r.ratios()[:, 1].mean()) < 1.5,
            partly=lambda r: float(r.ratios()[:, 1].mean()) < 1.5,
            spread=lambda r: {"ratio": float(r.ratios()[:, 1].std())},
            null=lambda r: {"natural": float(r.ratios()[:, 0].mean())},
        ),
    }


def _accuracy(train: ImageData, rate: float, steps: tuple[int, ...]) -> Tensor:
    (x,) = centred(train)
    moments = principal_moments(x, one_hot(train))
    coordinates = x @ moments.basis
    shares = train.counts.double() / len(train)
    start = torch.zeros_like(moments.cross)
    size = rate / float(moments.values[0])
    found = [
        (coordinates @ columns_at(start, moments, rate=size, steps=s).T + shares).argmax(1) == train.y
        for s in steps
    ]
    return torch.stack(found).double().mean(1)
