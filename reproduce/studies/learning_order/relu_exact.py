"""The two-layer ReLU model before training."""

from dataclasses import dataclass

import torch

from firstlight import models
from firstlight._internal.seeds import generator_from
from firstlight.models.two_layer import TwoLayerReLU
from firstlight.theory import two_layer_relu as theory
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


@study("relu2.psi0", "relu2.step")
class ReluExact(Study):
    """Is the paired two-layer ReLU network a linear map before training, and is its first step as corrected?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Size of the model."""

        units: int = 8
        points: int = 40  # mirrored: twice as many
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Compare with autograd in float64."""
        generator = generator_from("relu", cfg.seed)
        half = torch.randn(cfg.points, 5, generator=generator, dtype=torch.float64)
        x = torch.cat([half, -half])
        y = 2.0 * torch.randint(2, (len(x),), generator=generator).double() - 1
        model, loose = _built(cfg, paired=True), _built(cfg, paired=False)
        a, w = model.readout.double(), model.hidden.weight.detach()
        outputs = model(x[:, :, None, None])[:, 0]
        (0.5 * (outputs - y).square().sum()).backward()
        assert model.hidden.weight.grad is not None
        slope = -model.hidden.weight.grad
        step = theory.first_step(a, w, x, y, rate=1.0)
        printed = step - torch.outer(a, a) @ w @ (x.T @ x) / 4
        loose_map = loose.readout.double() @ loose.hidden.weight.detach() / 2
        predicted = x @ theory.linear_map(a, w)
        return {
            "deviation from the linear map": float((outputs.detach() - predicted).abs().max()),
            "deviation without pairing": float(
                (loose(x[:, :, None, None])[:, 0].detach() - x @ loose_map).abs().max()
            ),
            "error of the first step": float((step - slope).abs().max()),
            "error with the printed constant": float((printed - slope).abs().max()),
        }


def _built(cfg: ReluExact.Config, *, paired: bool) -> TwoLayerReLU:
    model = models.build(
        "two_layer_relu", classes=1, shape=(5, 1, 1), units=cfg.units, paired=paired, seed=cfg.seed
    )
    assert isinstance(model, TwoLayerReLU)
    return model.double()
