"""Spread over convolutional networks, linear and not, by principal component."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from firstlight.claims.learning_order._shared import centred, one_hot, pair
from firstlight.claims.learning_order.component_spread import bands, by_index
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.images import ImageData
from firstlight.figures import Curve, Figure, curves
from firstlight.measures.learning_order import (
    CompactRecorder,
    ComponentConvergence,
    activation_free_representation,
    compact_representation,
    component_convergence,
)
from firstlight.models import ModelSpec
from firstlight.theory.deep_linear import principal_moments
from firstlight.training import Observer, Recipe, train_ensemble


@dataclass(frozen=True, kw_only=True)
class ConvSpread(Result):
    """Convergence of the compact representation, by component."""

    linear: ComponentConvergence
    relu: ComponentConvergence
    early: int  # index of the early time at which the non-linear networks are read


@dataclass(frozen=True)
class _Watch:
    shape: tuple[int, int, int]
    steps: tuple[int, ...]
    linear: bool
    name: str = "compact representations"

    def __call__(self, steps_per_epoch: int) -> list[Observer]:
        of = compact_representation if self.linear else activation_free_representation
        return [CompactRecorder(self.shape, steps=self.steps, of=of)]


@study("pcbias.fig4b", "pcbias.fig4d")
class ConvolutionalSpread:
    """Do convolutional networks, linear and ReLU, also agree first along leading components?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks."""

        data: str = "cats_dogs"
        n: int = 1000
        linear_model: str = "small_linear"
        model: str = "small"
        options: tuple[tuple[str, float], ...] = (("width", 0.5),)
        nets: int = 4
        relu_nets: int = 5
        linear_epochs: int = 10
        epochs: int = 4
        lr: float = 0.05
        relu_lr: float = 0.1
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            data="photos:coffee/flower",
            n=64,
            options=(("width", 0.1),),
            nets=2,
            relu_nets=2,
            linear_epochs=2,
            epochs=2,
        ),
        "desk": Config(),
        "paper": Config(
            n=10_000,
            linear_model="linear_st_vgg",
            model="st_vgg",
            options=(),
            nets=10,
            relu_nets=10,
            linear_epochs=100,
            epochs=50,
            relu_lr=0.05,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> ConvSpread:
        """Squared loss for the linear networks, whose optimum is known; cross-entropy for the others."""
        train, _ = pair(cfg.data, cfg.n, 32, seed=cfg.seed)
        (x,) = centred(train)
        moments = principal_moments(x, one_hot(train))
        basis = moments.basis[:, : int((moments.values > 1e-9 * moments.values[0]).sum())]
        goal = moments.optimum @ moments.basis.T
        linear_recipe = Recipe(lr=cfg.lr, batch_size=32, epochs=cfg.linear_epochs, loss="mse", seed=cfg.seed)
        linear = _convergence(
            train, cfg.linear_model, cfg, linear_recipe, cfg.nets, basis, linear=True, goal=goal
        )
        recipe = Recipe(lr=cfg.relu_lr, batch_size=32, epochs=cfg.epochs, seed=cfg.seed + 100)
        relu = _convergence(train, cfg.model, cfg, recipe, cfg.relu_nets, basis, linear=False, goal=None)
        return ConvSpread(linear=linear, relu=relu, early=1)

    @staticmethod
    def figure(result: ConvSpread) -> Figure:
        """Share of the spread that is left."""
        return curves(
            [
                Curve(name="linear, end", values=result.linear.share_left()[-1:]),
                Curve(name="ReLU, early", values=result.relu.share_left()[result.early][None], role="other"),
            ],
            title="Spread over convolutional networks",
            alt="Spread relative to the start, by component, of linear and ReLU networks",
            x="principal component",
            y="spread / initial spread",
            log_x=True,
            log_y=True,
        )

    rules: ClassVar = {
        "pcbias.fig4b": Rule(
            measured=lambda r: {
                "distance": by_index(r.linear.distance[1]),
                "spread": by_index(r.linear.spread[1]),
                "spread 1-5, end": bands(r.linear.spread[-1])[0],
                "spread 50-100, end": bands(r.linear.spread[-1])[1],
            },
            reproduced=lambda r: by_index(r.linear.distance[1]) > 0.5 and by_index(r.linear.spread[1]) > 0.5,
            partly=lambda r: bands(r.linear.spread[-1])[0] < 0.5 * bands(r.linear.spread[-1])[1],
            null=lambda r: {
                "distance at the start": by_index(r.linear.distance[0]),
                "spread at the start": by_index(r.linear.spread[0]),
            },
        ),
        "pcbias.fig4d": Rule(
            measured=lambda r: {
                "left early, 1-5": bands(r.relu.share_left()[r.early])[0],
                "left early, 50-100": bands(r.relu.share_left()[r.early])[1],
                "left late, 1-5": bands(r.relu.share_left()[-1])[0],
                "left late, 50-100": bands(r.relu.share_left()[-1])[1],
            },
            reproduced=lambda r: (
                bands(r.relu.share_left()[r.early])[0] < bands(r.relu.share_left()[r.early])[1]
            ),
            partly=lambda r: bands(r.relu.share_left()[r.early])[0] < bands(r.relu.share_left()[r.early])[1],
            null=lambda r: {"without training": 1.0},
        ),
    }


def _convergence(
    train: ImageData,
    name: str,
    cfg: "ConvolutionalSpread.Config",
    recipe: Recipe,
    nets: int,
    basis: Tensor,
    *,
    linear: bool,
    goal: Tensor | None,
) -> ComponentConvergence:
    spec = ModelSpec(name=name, classes=train.n_classes, shape=train.shape, options=dict(cfg.options))
    total = recipe.total_steps(len(train))
    steps = (0, max(1, total // 2 if linear else total // 4), total)
    watch = _Watch(train.shape, steps, linear)
    members = train_ensemble(spec, nets, train, recipe, observe=watch, label=f"Training {name}")
    weights = torch.stack([m.records[0]["weights"] for m in members])
    return component_convergence(weights, basis, steps=steps, optimum=goal, class_mean_removed=not linear)
