"""Small networks trained from tiny weights, with everything the studies of the ansatz ask of them."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.core.result import Result
from firstlight.data import ImageData, load
from firstlight.measures.feature_ansatz import Ansatz, ansatz
from firstlight.measures.feature_ansatz.ansatz import FILTERS, INITIAL, TRAINED
from firstlight.models import ModelSpec
from firstlight.training import Recipe, Trained, accuracy, train_once

POOLINGS = ("max", "avg", "vec")


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """One network of a study, named by what distinguishes it."""

    data: str
    n: int  # training images
    pooling: str = "max"
    kernel: int = 3
    depth: int = 4
    channels: int = 16
    lr: float = 2e-3
    epochs: int = 10
    agop_images: int = 100
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class AnsatzNumbers(Result):
    """Convolutions of one network: correlations after and before training, and their nulls."""

    name: str
    test_accuracy: float
    pearson: Float[Tensor, " layers"]
    cosine: Float[Tensor, " layers"]
    null_pearson: Float[Tensor, " layers"]
    null_cosine: Float[Tensor, " layers"]
    initial_pearson: Float[Tensor, " layers"]
    initial_cosine: Float[Tensor, " layers"]
    initial_null_pearson: Float[Tensor, " layers"]
    initial_null_cosine: Float[Tensor, " layers"]
    filters_pearson: Float[Tensor, " layers"]
    isotropy: Float[Tensor, " layers"]
    initial_isotropy: Float[Tensor, " layers"]


def numbers_of(found: Ansatz, *, name: str, test_accuracy: float) -> AnsatzNumbers:
    """Pick the columns that the studies print."""
    return AnsatzNumbers(
        name=name,
        test_accuracy=test_accuracy,
        pearson=found.values(TRAINED),
        cosine=found.values(TRAINED, "cosine"),
        null_pearson=found.values(TRAINED, "null_pearson"),
        null_cosine=found.values(TRAINED, "null_cosine"),
        initial_pearson=found.values(INITIAL),
        initial_cosine=found.values(INITIAL, "cosine"),
        initial_null_pearson=found.values(INITIAL, "null_pearson"),
        initial_null_cosine=found.values(INITIAL, "null_cosine"),
        filters_pearson=found.values(FILTERS),
        isotropy=found.values(TRAINED, "isotropy"),
        initial_isotropy=found.values(INITIAL, "isotropy"),
    )


def trained_network(plan: NetworkPlan) -> tuple[ModelSpec, Trained, ImageData]:
    """Train the network of a plan; the third part is unseen images."""
    train = load(plan.data, split="train", n=plan.n, seed=plan.seed)
    test = load(plan.data, split="test", seed=plan.seed)
    spec = ModelSpec(
        name=f"pooling_{plan.pooling}",
        classes=train.n_classes,
        shape=train.shape,
        initialiser="pooling_study",
        options={"depth": plan.depth, "channels": plan.channels, "kernel": plan.kernel},
    )
    recipe = Recipe(optimiser="adam", lr=plan.lr, batch_size=32, epochs=plan.epochs, seed=plan.seed)
    return spec, train_once(spec, train, recipe, show=False), test


def small_network(plan: NetworkPlan) -> AnsatzNumbers:
    """Train and measure on unseen images."""
    spec, trained, test = trained_network(plan)
    model = trained.into(spec(plan.seed))
    found = ansatz(
        model,
        test.sample(min(plan.agop_images, len(test)), seed=plan.seed),
        initial=spec(plan.seed),
        layers="convolutions",
        seed=plan.seed,
        show=False,
    )
    name = f"{plan.data}, {plan.pooling}, {plan.kernel}x{plan.kernel}"
    return numbers_of(found, name=name, test_accuracy=accuracy(model, test))


def every(rows: tuple[AnsatzNumbers, ...], what: str) -> Float[Tensor, " all"]:
    """One column over all layers of all networks."""
    return torch.cat([getattr(row, what) for row in rows])
