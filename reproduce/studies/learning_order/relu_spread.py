"""Spread over two-layer ReLU networks by principal component."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight.data.images import ImageData
from firstlight.data.interventions.principal_components import ZCAWhitening
from firstlight.models.building import build
from firstlight.models.two_layer import TwoLayerReLU
from firstlight.theory.deep_linear import principal_moments
from firstlight.theory.two_layer_relu import exact_step
from reproduce.catalogue import study
from reproduce.evidence import Measured
from reproduce.studies.learning_order.common import (
    CurveStudy,
    bands,
    centred,
    ensemble_seed,
    normalised,
    order_by_index,
)


@study("relu2.fig2.right")
class ReluSpread(CurveStudy):
    """Does a two-layer ReLU network with a trained first layer show the order of linear networks?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks."""

        data: str = "mnist:4/9"
        n: int = 2000
        halve: bool = True
        units: int = 200
        nets: int = 4  # their spread is what is measured
        steps: int = 100
        rate: float = 0.5  # of the stability limit of the linear map
        seed: int = 0

    drawn = {"natural": "trained", "whitened": "null"}
    axes = ("principal component", "spread left")
    scales = {
        "smoke": Config(data="photos:coffee/flower", n=100, units=10, nets=2, steps=3),
        "desk": Config(),
        "night": Config(halve=False, n=5000, nets=6),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Full-batch descent from paired weights."""
        train = normalised(cfg.data, cfg.n, seed=cfg.seed, halve=cfg.halve)
        natural, accuracy = _share_left(train, cfg)
        white, _ = _share_left(ZCAWhitening.fit(train).transform(train), cfg)
        leading, trailing = bands(natural)
        return {
            "order of the spread left": order_by_index(natural),
            "order of the spread left when whitened": order_by_index(white),
            "spread left along components 1-5": leading,
            "spread left along components 50-100": trailing,
            "training accuracy": accuracy,
            "natural": natural,
            "whitened": white,
        }


def _share_left(train: ImageData, cfg: ReluSpread.Config) -> tuple[Tensor, float]:
    """Spread of the linear part after training over that before, by component; and training accuracy."""
    (x,) = centred(train)
    y = 2.0 * train.y.double() - 1
    moments = principal_moments(x, y[:, None])
    rank = int((moments.values > 1e-9 * moments.values[0]).sum())
    before, after, accuracy = [], [], 0.0
    for net in range(cfg.nets):
        model = build(
            "two_layer_relu",
            classes=1,
            shape=train.shape,
            units=cfg.units,
            paired=True,
            seed=ensemble_seed(cfg.seed) + net,
        )
        assert isinstance(model, TwoLayerReLU)
        weights, readout = model.hidden.weight.detach().double(), model.readout.double()
        rate = cfg.rate * 4 / float(readout.square().sum()) / float(moments.values[0])
        before.append(readout @ weights @ moments.basis)
        for _ in range(cfg.steps):
            weights = weights + exact_step(readout, weights, x, y, rate=rate)
        after.append(readout @ weights @ moments.basis)
        outputs = (x @ weights.T).clamp(min=0) @ readout
        accuracy += float((outputs.sign() == y).double().mean()) / cfg.nets
    return (torch.stack(after).std(0) / torch.stack(before).std(0))[:rank], accuracy
