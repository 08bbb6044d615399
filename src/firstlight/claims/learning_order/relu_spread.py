"""Spread over two-layer ReLU networks by principal component."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import centred, images, signs
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation, ZCAWhitening
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import spearman
from firstlight.models import build
from firstlight.models.two_layer import TwoLayerReLU
from firstlight.theory.deep_linear import principal_moments
from firstlight.theory.two_layer_relu import exact_step


@dataclass(frozen=True, kw_only=True)
class ReluSpread(Result):
    """Share of the spread of the linear part that is left, by component."""

    natural: Float[Tensor, " m"]
    whitened: Float[Tensor, " m"]

    @property
    def order(self) -> float:
        """Spearman correlation of component rank and share, natural images."""
        return float(spearman(self.natural, torch.arange(len(self.natural))))

    @property
    def order_whitened(self) -> float:
        """The same, whitened."""
        return float(spearman(self.whitened, torch.arange(len(self.whitened))))


@study("relu2.fig2.right")
class ReluSpreadByComponent:
    """Does a two-layer ReLU network with a trained first layer show the order of linear networks?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks."""

        data: str = "mnist:4/9"
        n: int = 1000
        units: int = 200
        nets: int = 6
        steps: int = 100
        rate: float = 0.5  # of the stability limit of the linear map
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(data="photos:coffee/flower", n=100, units=10, nets=2, steps=3),
        "desk": Config(),
        "paper": Config(data="cats_dogs", n=10_000, units=1024, nets=10, steps=5000),
    }

    @staticmethod
    def run(cfg: Config) -> ReluSpread:
        """Full-batch descent from paired weights."""
        raw = images(cfg.data, "train", cfg.n, seed=cfg.seed)
        natural = ChannelNormalisation.fit(raw).transform(raw)
        white = ZCAWhitening.fit(natural).transform(natural)
        return ReluSpread(natural=_share_left(natural, cfg), whitened=_share_left(white, cfg))

    @staticmethod
    def figure(result: ReluSpread) -> Figure:
        """Share of the spread that is left."""
        shown = min(len(result.natural), len(result.whitened))
        return curves(
            [
                Curve(name="natural", values=result.natural[None, :shown]),
                Curve(name="whitened", values=result.whitened[None, :shown], role="null"),
            ],
            title="Two-layer ReLU networks agree first along leading components",
            alt="Share of the initial spread that is left, by component",
            x="principal component",
            y="spread left",
        )

    rules: ClassVar = {
        "relu2.fig2.right": Rule(
            measured=lambda r: {
                "Spearman": r.order,
                "left, 1-5": float(r.natural[:5].mean()),
                "left, 50-100": float(r.natural[49:100].mean())
                if len(r.natural) > 50
                else float(r.natural[-1]),
            },
            reproduced=lambda r: r.order > 0.7,
            partly=lambda r: r.order > 0.5,
            null=lambda r: {"whitened": r.order_whitened},
        )
    }


def _share_left(train: ImageData, cfg: "ReluSpreadByComponent.Config") -> Tensor:
    (x,) = centred(train)
    y = signs(train)
    moments = principal_moments(x, y[:, None])
    rank = int((moments.values > 1e-9 * moments.values[0]).sum())
    before, after = [], []
    for net in range(cfg.nets):
        model = build(
            "two_layer_relu", classes=1, shape=train.shape, units=cfg.units, paired=True, seed=cfg.seed + net
        )
        assert isinstance(model, TwoLayerReLU)
        weights, readout = model.hidden.weight.detach().double(), model.readout.double()
        rate = cfg.rate * 4 / float(readout.square().sum()) / float(moments.values[0])
        before.append(readout @ weights @ moments.basis)
        for _ in range(cfg.steps):
            weights = weights + exact_step(readout, weights, x, y, rate=rate)
        after.append(readout @ weights @ moments.basis)
    spread = torch.stack(after).std(0) / torch.stack(before).std(0)
    return spread[:rank]
