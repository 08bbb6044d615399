"""What the studies of this theme share: one small network, trained while its outputs are watched."""

import copy
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.seeds import global_seed
from firstlight.data import ImageData, load
from firstlight.training import Recipe, predictions, train_on


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """A small convolutional network on crops of photographs."""

    n: int = 600  # training images
    n_test: int = 300
    channels: int = 16
    size: int = 7  # side of the first filters: below 5 six masters span most of the space
    epochs: int = 10
    lr: float = 2e-3


DESK = NetworkPlan()
SMOKE = NetworkPlan(n=64, n_test=40, channels=4, epochs=2)


@dataclass(frozen=True, eq=False)
class Trained:
    """A network before and after, its images, and what it said on the way."""

    initial: nn.Module
    model: nn.Module
    checkpoints: dict[str, nn.Module]
    outputs: Float[Tensor, "epochs n c"]
    train: ImageData
    test: ImageData


def network(plan: NetworkPlan, classes: int, *, seed: int) -> nn.Module:
    """Two convolutions with pooling, a hidden and an output layer."""
    with global_seed("since", seed):  # an older name of the theme: another word would draw other weights
        return nn.Sequential(
            nn.Conv2d(3, plan.channels, plan.size, padding=plan.size // 2), nn.ReLU(), nn.AvgPool2d(4),
            nn.Conv2d(plan.channels, plan.channels, 3, padding=1), nn.ReLU(), nn.AvgPool2d(2), nn.Flatten(),
            nn.Linear(16 * plan.channels, 4 * plan.channels), nn.ReLU(), nn.Linear(4 * plan.channels, classes),
        )  # fmt: skip


def trained_network(plan: NetworkPlan, *, seed: int) -> Trained:
    """Train by Adam; outputs on the training images and a copy of the network are kept after every epoch."""
    train = load("photos", split="train", n=plan.n, seed=seed)
    test = load("photos", split="test", n=plan.n_test, seed=seed)
    model = network(plan, train.n_classes, seed=seed)
    initial = copy.deepcopy(model)
    recipe = Recipe(optimiser="adam", lr=plan.lr, epochs=plan.epochs, seed=seed)
    per_epoch = recipe.steps_per_epoch(len(train))
    outputs, checkpoints = [], {}

    def watch(step: int, network: nn.Module) -> None:
        if step and step % per_epoch == 0:
            outputs.append(predictions(network, train.x).double())
            checkpoints[f"epoch {step // per_epoch}"] = copy.deepcopy(network).cpu()

    train_on(model, train, recipe, observers=[watch], show=False)
    return Trained(initial, model, checkpoints, torch.stack(outputs), train, test)
