"""What the studies of the learning order share: images, ensembles, a linear network in closed form, figures."""

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight import data
from firstlight._internal.seeds import generator_from
from firstlight.data import ImageData
from firstlight.data.interventions import ChannelNormalisation
from firstlight.maths import PCA, spearman
from firstlight.measures.learning_order import (
    AccessibilityHistory,
    AccessibilityRecorder,
    CompactRecorder,
    activation_free_representation,
    compact_representation,
    history_of,
)
from firstlight.models import ModelSpec
from firstlight.theory.deep_linear import columns_at, principal_moments
from firstlight.training import Observer, Recipe, Trained, train_ensemble
from reproduce.catalogue import Settings

# ---------------------------------------------------------------- data


def images(name: str, split: str, n: int, *, seed: int, halve: bool) -> ImageData:
    """Draw n images; `halve` averages them over 2 x 2 pixels.

    With fewer images than pixels every linear network fits everything, and no order can be seen: where few
    images are affordable, they must be small.
    """
    drawn = data.load(name, split=split, n=n, seed=seed)
    return drawn.map(lambda x: F.avg_pool2d(x, 2), halved=True) if halve else drawn


def normalised(name: str, n: int, *, seed: int, halve: bool) -> ImageData:
    """Training images with standardised channels."""
    drawn = images(name, "train", n, seed=seed, halve=halve)
    return ChannelNormalisation.fit(drawn).transform(drawn)


def pair(name: str, n_train: int, n_test: int, *, seed: int, halve: bool) -> tuple[ImageData, ImageData]:
    """Training and test images, channels standardised by the training images."""
    train = images(name, "train", n_train, seed=seed, halve=halve)
    test = images(name, "test", n_test, seed=seed, halve=halve)
    scale = ChannelNormalisation.fit(train)
    return scale.transform(train), scale.transform(test)


def centred(train: ImageData, *others: ImageData) -> list[Float[Tensor, "n q"]]:
    """Images as rows in float64, less the mean training image."""
    mean = train.x.flatten(1).double().mean(0)
    return [part.x.flatten(1).double() - mean for part in (train, *others)]


def one_hot(part: ImageData) -> Float[Tensor, "n k"]:
    """Labels as rows, less the class frequencies: what a linear map without bias must fit."""
    rows = F.one_hot(part.y, part.n_classes).double()
    return rows - rows.mean(0)


def random_directions(pca: PCA, *, seed: int) -> PCA:
    """The same mean, but directions drawn at random: the control of whatever leading components do."""
    generator = generator_from("directions", seed)
    basis, _ = torch.linalg.qr(torch.randn(pca.basis.shape, generator=generator, dtype=torch.float64))
    return dataclasses.replace(pca, basis=basis)


# ---------------------------------------------------------------- networks


class Watch:
    """Makes one accessibility recorder per probe set."""

    def __init__(self, *probes: ImageData) -> None:
        self.probes = probes
        self.name = "accessibility of " + " ".join(p.fingerprint for p in probes)

    def __call__(self, steps_per_epoch: int) -> Sequence[Observer]:
        """Return the recorders."""
        return [AccessibilityRecorder(p.x, p.y, every=steps_per_epoch) for p in self.probes]


@dataclass(frozen=True)
class CompactWatch:
    """Makes a recorder of the compact representation; `is_linear` says whether there are activations to leave out."""

    shape: tuple[int, int, int]
    steps: tuple[int, ...]
    is_linear: bool = True
    name: str = "compact representations"

    def __call__(self, steps_per_epoch: int) -> Sequence[Observer]:
        """Return the recorder."""
        of = compact_representation if self.is_linear else activation_free_representation
        return [CompactRecorder(self.shape, steps=self.steps, of=of)]


def ensemble_seed(seed: int) -> int:
    """First seed of the networks of one seed of a study; no two studies' seeds share a network."""
    return 1000 * seed


def histories(
    spec: ModelSpec, n: int, train: ImageData, recipe: Recipe, *probes: ImageData, label: str
) -> tuple[list[Trained], list[AccessibilityHistory]]:
    """Train an ensemble and return its networks and one history per probe set."""
    nets = train_ensemble(spec, n, train, recipe, observe=Watch(*probes), label=label)
    return nets, [history_of([net.records[i] for net in nets]) for i in range(len(probes))]


def linear_network(train: ImageData, *, depth: int) -> ModelSpec:
    """Fully connected linear network from Glorot weights, 256 units in its hidden layers."""
    options = {"depth": 1} if depth == 1 else {"depth": depth, "units": 256}
    classes, shape = train.n_classes, train.shape
    return ModelSpec(
        name="linear_fcn", classes=classes, shape=shape, initialiser="xavier_uniform", options=options
    )


def training_accuracy(nets: Sequence[Trained]) -> float:
    """Share of right answers during the last epoch, mean over networks."""
    rows = [net.history.hits[-net.history.steps_per_epoch :] for net in nets]
    return float(torch.stack(rows).double().mean())


def linear_accuracy(
    train: ImageData, probe: ImageData, *, rate: float, steps: Sequence[int]
) -> Float[Tensor, " t"]:
    """Accuracy over time of a one-layer linear network, in closed form: full-batch descent from zero.

    Parameters
    ----------
    train, probe : ImageData
        Images to train on and to be asked about.
    rate : float
        Relative to the inverse of the largest eigenvalue.
    steps : sequence of int
        When to ask.
    """
    x, z = centred(train, probe)
    moments = principal_moments(x, one_hot(train))
    coordinates = z @ moments.basis
    frequencies = train.counts.double() / len(train)
    initial = torch.zeros_like(moments.cross)
    size = rate / float(moments.values[0])
    right = [
        (coordinates @ columns_at(initial, moments, rate=size, steps=s).T + frequencies).argmax(1) == probe.y
        for s in steps
    ]
    return torch.stack(right).double().mean(1)


# ---------------------------------------------------------------- readings


def order_by_index(values: Float[Tensor, " m"]) -> float:
    """Spearman correlation with the component's index; 0 if the values are all alike."""
    if float(values.max() - values.min()) <= 1e-9 * float(values.abs().max()):
        return 0.0
    return float(spearman(values, torch.arange(len(values))))


def bands(values: Float[Tensor, " m"]) -> tuple[float, float]:
    """Means over components 1 to 5 and 50 to 100 (or the second half, where there are fewer)."""
    low = min(49, len(values) // 2)
    return float(values[:5].mean()), float(values[low:100].mean())


# ---------------------------------------------------------------- bases


SMOKE: dict[str, Any] = {"data": "photos:coffee/flower"}
SMOKE_CNN: dict[str, Any] = {**SMOKE, "options": (("width", 0.1),)}


class CnnConfig(Settings):
    """Data and convolutional networks."""

    data: str = "cats_dogs"
    halve: bool = True
    model: str = "small"
    options: tuple[tuple[str, float], ...] = (("width", 0.5),)
    nets: int = 1

    def spec(self, train: ImageData, *, model: str = "") -> ModelSpec:
        """Network for these images."""
        shape, options = train.shape, dict(self.options)
        return ModelSpec(name=model or self.model, classes=train.n_classes, shape=shape, options=options)

    def recipe(self, **options: Any) -> Recipe:
        """SGD in batches of 32; the seeds of a study share no network."""
        return Recipe(**{"batch_size": 32, "seed": ensemble_seed(self.seed), **options})
