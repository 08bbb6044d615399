"""What the studies of the learning order share: images, ensembles, a linear network in closed form, figures."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import torch
from jaxtyping import Float, Int, Num
from torch import Tensor
from torch.nn import functional as F

from firstlight import data
from firstlight._internal.seeds import generator_from
from firstlight.data import ImageData
from firstlight.data.interventions import ChannelNormalisation
from firstlight.maths import PCA, spearman
from firstlight.maths.correlation import pearson
from firstlight.measures.learning_order.accessibility import (
    AccessibilityHistory,
    AccessibilityRecorder,
    history_of,
)
from firstlight.measures.learning_order.constancy import varies
from firstlight.models import ModelSpec
from firstlight.training import Observer, Recipe, Trained, train_ensemble
from reproduce.catalogue import Study
from reproduce.studies.learning_order.compact_representation import (
    CompactRecorder,
    activation_free_representation,
    compact_representation,
)
from reproduce.studies.learning_order.deep_linear import columns_at, principal_moments

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
        return [CompactRecorder(self.shape, self.steps, of)]


def ensemble_seed(seed: int) -> int:
    """First seed of the networks of one seed of a study; no two studies' seeds share a network."""
    return 1000 * seed


def histories(
    spec: ModelSpec, n: int, train: ImageData, recipe: Recipe, *probes: ImageData, label: str
) -> tuple[list[Trained], list[AccessibilityHistory]]:
    """Train an ensemble and return its networks and one history per probe set."""
    nets = train_ensemble(spec, n, train, recipe, observe=Watch(*probes), label=label)
    return nets, [history_of([net.records[i] for net in nets]) for i in range(len(probes))]


def reliability(history: AccessibilityHistory) -> float:
    r"""How well the scores agree with those of as many other networks, by Spearman and Brown.

    .. math:: \frac{n r}{1 + (n - 1) r}

    with the mean correlation r of two of the n networks. 0 where they do not agree at all.
    """
    rows = history.by_network
    n = len(rows)
    single = float(torch.stack([pearson(a, b) for a, b in combinations(rows, 2)]).mean())
    return max(0.0, n * single / (1 + (n - 1) * single))


def without_attenuation(correlation: float, *reliabilities: float) -> float:
    """Correlation that scores without noise would have; 0 where one of them is nothing but noise."""
    return correlation / math.sqrt(math.prod(reliabilities)) if all(reliabilities) else 0.0


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


class CnnStudy(Study):
    """Settings of studies of convolutional networks."""

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


FREQUENCIES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Frequencies of the sinusoids, in the order in which they are added."""
PHASES = (0.0, 3.46, 5.08, 0.45, 2.10, 1.4, 5.36, 0.85, 5.9, 5.16)
"""Their phases, as published."""


def partial_sums(z: Float[Tensor, " n"]) -> Float[Tensor, "n 10"]:
    r"""Column k holds the curve up to its k-th frequency, in float64.

    .. math:: \lambda_k(z) = \sum_{i=0}^{k} \sin(2\pi \kappa_i z + \varphi_i), \qquad \kappa_i = i

    The first column is zero, since frequency and phase of the first term are; the last is the whole curve.
    """
    angles = 2 * math.pi * z.double()[:, None] * torch.tensor(FREQUENCIES).double()
    return (angles + torch.tensor(PHASES, dtype=torch.float64)).sin().cumsum(1)


def frequency_points(
    n: int, *, seed: int, split: str = "train"
) -> tuple[Float[Tensor, "n 2"], Int[Tensor, " n"]]:
    r"""Points (z, v) with the label :math:`1[v \le \lambda(z)]`, uniform over [-1, 1] × [-2π, 2π].

    The paper's text thresholds λ(z) at zero and thereby ignores v; its pictures and its critical frequency
    only make sense for points below or above the curve, which is what we take.

    Parameters
    ----------
    n : int
        Number of points; 10 000 for training and 1 000 for testing in the paper.
    seed : int
        Decides the points, together with `split`.
    split : str, default 'train'
        A word that makes training and test points independent under one seed.
    """
    uniform = torch.rand(n, 2, generator=generator_from("frequency", split, seed), dtype=torch.float64)
    # rounded first: the labels must be right for the points as they are stored
    points = ((2 * uniform - 1) * torch.tensor([1.0, 2 * math.pi], dtype=torch.float64)).float()
    labels = (points[:, 1].double() <= partial_sums(points[:, 0])[:, -1]).long()
    return points, labels


def frequency_data(n: int, *, seed: int, split: str = "train") -> ImageData:
    """The same points as images of two channels and one pixel, for networks of 1 × 1 convolutions."""
    points, labels = frequency_points(n, seed=seed, split=split)
    meta = {"name": "frequency", "split": split, "seed": seed}
    return ImageData(points[:, :, None, None], labels, ("above", "below"), meta)


def critical_frequency(points: Float[Tensor, "n 2"]) -> Int[Tensor, " n"]:
    r"""Index, from 0, of the sinusoid with which the partial sum first gives the right label.

    .. math:: \min\{\, j : 1[v \le \lambda_j(z)] = 1[v \le \lambda(z)] \,\}

    Parameters
    ----------
    points : Tensor of shape (n, 2)
        (z, v), as :func:`frequency_points` draws them.

    Examples
    --------
    >>> points = torch.tensor([[0.3, 9.0], [-0.6345, -0.7938]])  # the first lies above all sums
    >>> critical_frequency(points)
    tensor([0, 4])
    """
    below = points[:, 1].double()[:, None] <= partial_sums(points[:, 0])
    return (below == below[:, -1:]).to(torch.uint8).argmax(1)


def matched(
    first: AccessibilityHistory, second: AccessibilityHistory
) -> tuple[AccessibilityHistory, AccessibilityHistory]:
    """Cut two histories where both reach the accuracy that the weaker one reaches at best.

    Constancy rises by itself as networks converge, since all end up missing the same few examples; two
    conditions are comparable only at the same accuracy.
    """
    curves = [h.accuracy.mean(0) for h in (first, second)]
    # first epoch at which each curve reaches it: accuracy may fall again later
    level = min(float(c.max()) for c in curves)
    ends = [int((c >= level - 1e-12).nonzero()[0]) + 1 for c in curves]
    return first.up_to(ends[0]), second.up_to(ends[1])


def smoothed_correlation(
    accessibility: Num[Tensor, " n"], score: Num[Tensor, " n"], *, window: int = 10
) -> float:
    """Correlation after a moving average over the values the score takes, as the paper's figures have it.

    For every distinct value of the score the mean accessibility is taken, then the mean over `window`
    neighbouring values. It flatters even more than bins do.
    """
    values = torch.unique(score)
    means = torch.stack([accessibility[score == v].double().mean() for v in values])
    smooth = means.unfold(0, window, 1).mean(1)
    centres = values.double().unfold(0, window, 1).mean(1)
    return float(pearson(smooth, centres))


def running_constancy(first: AccessibilityHistory, second: AccessibilityHistory) -> Float[Tensor, " epochs"]:
    """Constancy of the order learned up to each epoch; 0 where one ensemble still treats all alike."""
    correlations = []
    for epoch in range(1, min(first.n_epochs, second.n_epochs) + 1):
        a, b = first.up_to(epoch).scores, second.up_to(epoch).scores
        correlations.append(float(pearson(a, b)) if varies(a) and varies(b) else 0.0)
    return torch.tensor(correlations, dtype=torch.float64)
