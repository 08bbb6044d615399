"""Spread over convolutional networks, linear and not, by principal component."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight.data.images import ImageData
from firstlight.data.interventions.principal_components import ZCAWhitening
from firstlight.measures.learning_order.compact_representation import (
    ComponentConvergence,
    component_convergence,
)
from firstlight.theory.deep_linear import principal_moments
from firstlight.training.ensemble import train_ensemble
from reproduce.catalogue import study
from reproduce.evidence import Measured
from reproduce.studies.learning_order.common import (
    SMOKE_CNN,
    CnnConfig,
    CompactWatch,
    CurveStudy,
    bands,
    centred,
    ensemble_seed,
    normalised,
    one_hot,
    order_by_index,
    training_accuracy,
)

SPREAD, DISTANCE = "order of the spread left", "order of the distance left"
RELU = "spread left early in ReLU networks along components"


@study("pcbias.fig4b", "pcbias.fig4d")
class ConvSpread(CurveStudy):
    """Do convolutional networks, linear and ReLU, also agree first along leading components?"""

    @dataclass(frozen=True, kw_only=True)
    class Config(CnnConfig):
        """Data and networks."""

        n: int = 2500
        linear_model: str = "small_linear"
        nets: int = 2  # their spread is what is measured
        linear_epochs: int = 20
        epochs: int = 12
        lr: float = 0.2
        relu_lr: float = 0.1

    drawn = {"linear, end": "trained", "linear, whitened": "null", "ReLU, early": "other"}
    axes = ("principal component", "spread / initial spread")
    log_axes = "xy"
    scales = {
        "smoke": Config(**SMOKE_CNN, n=64, linear_epochs=2, epochs=2),
        "desk": Config(),
        "night": Config(halve=False, n=10_000, nets=4, linear_epochs=60, epochs=20),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Squared loss for the linear networks, whose optimum is known; cross-entropy for the others."""
        train = normalised(cfg.data, cfg.n, seed=cfg.seed, halve=cfg.halve)
        white = ZCAWhitening.fit(train).transform(train)
        linear, linear_accuracy = _convergence(train, cfg, is_linear=True)
        linear_white, _ = _convergence(white, cfg, is_linear=True)
        relu, relu_accuracy = _convergence(train, cfg, is_linear=False)
        relu_white, _ = _convergence(white, cfg, is_linear=False)
        assert linear.distance is not None
        leading, trailing = bands(relu.share_left()[1])
        leading_white, trailing_white = bands(relu_white.share_left()[1])
        return {
            DISTANCE: order_by_index(linear.distance[1] / linear.distance[0]),
            SPREAD: order_by_index(linear.share_left()[1]),
            f"{SPREAD} when whitened": order_by_index(linear_white.share_left()[1]),
            "training accuracy of linear networks": linear_accuracy,
            f"{RELU} 1-5": leading,
            f"{RELU} 50-100": trailing,
            f"{RELU} 1-5 when whitened": leading_white,
            f"{RELU} 50-100 when whitened": trailing_white,
            "training accuracy of ReLU networks": relu_accuracy,
            "linear, end": linear.share_left()[-1],
            "linear, whitened": linear_white.share_left()[-1],
            "ReLU, early": relu.share_left()[1],
        }


def _convergence(
    train: ImageData, cfg: ConvSpread.Config, *, is_linear: bool
) -> tuple[ComponentConvergence, float]:
    """Convergence at half (linear) or a quarter (ReLU) of training and at its end, and training accuracy."""
    (x,) = centred(train)
    moments = principal_moments(x, one_hot(train))
    basis = moments.basis[:, : int((moments.values > 1e-9 * moments.values[0]).sum())]
    if is_linear:
        name, recipe = cfg.linear_model, cfg.recipe(lr=cfg.lr, epochs=cfg.linear_epochs, loss="mse")
    else:
        name, recipe = (
            cfg.model,
            cfg.recipe(lr=cfg.relu_lr, epochs=cfg.epochs, seed=ensemble_seed(cfg.seed) + 100),
        )
    spec = cfg.spec(train, model=name)
    total = recipe.total_steps(len(train))
    steps = (0, max(1, total // (2 if is_linear else 4)), total)
    watch = CompactWatch(train.shape, steps, is_linear)
    nets = train_ensemble(spec, cfg.nets, train, recipe, observe=watch, label=f"Training {name}")
    weights = torch.stack([net.records[0]["weights"] for net in nets])
    goal: Tensor | None = moments.optimum @ moments.basis.T if is_linear else None
    convergence = component_convergence(
        weights, basis, steps=steps, optimum=goal, class_mean_removed=not is_linear
    )
    if not is_linear:
        return convergence, training_accuracy(nets)
    frequencies = train.counts.double() / len(train)
    right = (torch.einsum("nq,akq->ank", x, weights[:, -1].double()) + frequencies).argmax(2) == train.y
    return convergence, float(right.double().mean())
