"""What the studies of this theme share: trained networks and their profiles in one basis."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.store.runs import Store
from firstlight.data import ImageData, load
from firstlight.maths import PCA, PatchGeometry, patch_pca, pearson
from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.models import ModelSpec
from firstlight.training import Recipe, accuracy, train_ensemble


def images(dataset: str, n: int, *, seed: int, split: str = "train") -> ImageData:
    """Up to `n` images of a data set, the same for every study that asks with the same words."""
    data = load(dataset, split=split, seed=seed)
    return data.sample(min(n, len(data)), seed=seed)


@dataclass(frozen=True, kw_only=True)
class Bank:
    """First layers of a few networks that differ in nothing but the seed."""

    trained: Float[Tensor, "nets k d"]
    initial: Float[Tensor, "nets k d"]
    train_accuracy: tuple[float, ...]

    def profiles(self, pca: PCA, *, subtract: bool = False) -> Float[Tensor, "nets m"]:
        """Energy profile of every network, of its weights or of their change."""
        rows = self.trained - self.initial if subtract else self.trained
        return torch.stack([energy_profile(filters, pca.basis) for filters in rows])

    def initial_profiles(self, pca: PCA) -> Float[Tensor, "nets m"]:
        """Energy profile of the initial weights."""
        return torch.stack([energy_profile(filters, pca.basis) for filters in self.initial])

    @property
    def fitted(self) -> float:
        """Mean training accuracy."""
        return sum(self.train_accuracy) / len(self.train_accuracy)


def bank(spec: ModelSpec, n: int, data: ImageData, recipe: Recipe, *, label: str) -> Bank:
    """Train, or fetch from the store, `n` networks and keep their first layers."""
    nets = train_ensemble(spec, n, data, recipe, store=Store(), label=label)
    name = next(key for key, value in nets[0].weights.items() if value.ndim == 4)
    return Bank(
        trained=torch.stack([net.weights[name].flatten(1).double() for net in nets]),
        initial=torch.stack([net.initial[name].flatten(1).double() for net in nets]),
        train_accuracy=tuple(accuracy(net.into(spec(net.seed)), data) for net in nets),
    )


def basis(data: ImageData, *, size: int = 3, padding: int = 1) -> PCA:
    """Patch components of the raw pixels, with the padding of the layer."""
    return patch_pca(data.x, PatchGeometry.square(size, padding=padding))


def between(a: Float[Tensor, "na m"], b: Float[Tensor, "nb m"]) -> Float[Tensor, " pairs"]:
    """Correlation of every row of `a` with every row of `b`."""
    return torch.stack([pearson(x, y) for x in a for y in b])


def within(a: Float[Tensor, "na m"]) -> Float[Tensor, " pairs"]:
    """Correlation of every pair of different rows."""
    return torch.stack([pearson(a[i], a[j]) for i in range(len(a)) for j in range(i + 1, len(a))])


def mean(values: Tensor) -> float:
    """Mean as a plain number."""
    return float(values.double().mean())


def network_seed(seed: int, group: int = 0) -> int:
    """First seed of a group of networks, so that no two groups and no two repetitions share one.

    Networks of one seed and equal first layers start from the same filters, which would let their
    profiles agree before anything is learned.
    """
    return 1000 * seed + 100 * group
