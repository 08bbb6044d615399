"""The two-layer ReLU model at its start."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight import models
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.models.two_layer import TwoLayerReLU
from firstlight.theory import two_layer_relu as theory


@dataclass(frozen=True, kw_only=True)
class ReluStart(Result):
    """Deviations from the closed forms."""

    linear: float  # of the outputs from the linear map
    unpaired: float  # the same without pairing
    step: float  # of the first step from autograd
    printed: float  # with the printed constant
    outputs: Float[Tensor, " n"]
    predicted: Float[Tensor, " n"]


@study("relu2.psi0", "relu2.step")
class ReluExact:
    """Is the paired two-layer ReLU network a linear map at the start, and is its first step as corrected?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Size of the model."""

        units: int = 8
        points: int = 40  # mirrored: twice as many
        seed: int = 0

    scales: ClassVar = {"smoke": Config(), "desk": Config(), "paper": Config(units=1024, points=1000)}

    @staticmethod
    def run(cfg: Config) -> ReluStart:
        """Compare with autograd in float64."""
        generator = generator_from("relu", cfg.seed)
        half = torch.randn(cfg.points, 5, generator=generator, dtype=torch.float64)
        x = torch.cat([half, -half])
        y = 2.0 * torch.randint(2, (len(x),), generator=generator).double() - 1

        def built(*, paired: bool) -> TwoLayerReLU:
            found = models.build(
                "two_layer_relu", classes=1, shape=(5, 1, 1), units=cfg.units, paired=paired, seed=cfg.seed
            )
            assert isinstance(found, TwoLayerReLU)
            return found.double()

        model = built(paired=True)
        a, w = model.readout.double(), model.hidden.weight.detach()
        outputs = model(x[:, :, None, None])[:, 0]
        (0.5 * (outputs - y).square().sum()).backward()
        step = theory.first_step(a, w, x, y, rate=1.0)
        printed = step - torch.outer(a, a) @ w @ (x.T @ x) / 4
        assert model.hidden.weight.grad is not None
        slope = -model.hidden.weight.grad
        loose = built(paired=False)
        loose_map = loose.readout.double() @ loose.hidden.weight.detach() / 2
        predicted = x @ theory.linear_map(a, w)
        return ReluStart(
            linear=float((outputs.detach() - predicted).abs().max()),
            unpaired=float((loose(x[:, :, None, None])[:, 0].detach() - x @ loose_map).abs().max()),
            step=float((step - slope).abs().max()),
            printed=float((printed - slope).abs().max()),
            outputs=outputs.detach(),
            predicted=predicted,
        )

    @staticmethod
    def figure(result: ReluStart) -> Figure:
        """Outputs beside the linear map."""
        order = result.predicted.argsort()
        return curves(
            [
                Curve(name="network", values=result.outputs[order][None]),
                Curve(name="linear map", values=result.predicted[order][None], role="theory"),
            ],
            title="A paired ReLU network is linear at its start",
            alt="Two curves that coincide",
            x="point, by predicted output",
            y="output",
        )

    rules: ClassVar = {
        "relu2.psi0": Rule(
            measured=lambda r: {"deviation": r.linear},
            reproduced=lambda r: r.linear < 1e-10,
            null=lambda r: {"without pairing": r.unpaired},
        ),
        "relu2.step": Rule(
            measured=lambda r: {"deviation": r.step},
            reproduced=lambda r: r.step < 1e-8,
            null=lambda r: {"with the printed constant": r.printed},
        ),
    }
