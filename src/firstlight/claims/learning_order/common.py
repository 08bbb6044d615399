"""What several studies of the learning order need: small images, ensembles, moments."""

from collections.abc import Callable, Sequence
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight import data
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation
from firstlight.measures.learning_order import AccessibilityHistory, AccessibilityRecorder, history_of
from firstlight.models import ModelSpec
from firstlight.training import Observer, Recipe, Trained, train_ensemble

PUBLISHED = 10_000  # images of cats and dogs in the paper


def images(name: str, split: str, n: int, *, seed: int, halve: bool | None = None) -> ImageData:
    """Draw n images; below the published numbers of them, averaged over 2 x 2 pixels to half their size.

    With fewer images than pixels every linear network fits everything, and no order can be seen.
    """
    found = data.load(name, split=split, n=n, seed=seed)
    small = n < PUBLISHED and name != "small_mammals" if halve is None else halve
    return found.map(lambda x: F.avg_pool2d(x, 2), halved=True) if small else found


def pair(
    name: str, n_train: int, n_test: int, *, seed: int, halve: bool | None = None
) -> tuple[ImageData, ImageData]:
    """Training and test images of one size, channels standardised by the training images."""
    small = n_train < PUBLISHED and name != "small_mammals" if halve is None else halve
    train = images(name, "train", n_train, seed=seed, halve=small)
    test = images(name, "test", n_test, seed=seed, halve=small)
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


def signs(part: ImageData) -> Float[Tensor, " n"]:
    """Labels of two classes as -1 and 1."""
    return 2.0 * part.y.double() - 1


class Watch:
    """Makes one accessibility recorder per probe set."""

    def __init__(self, *probes: ImageData, extra: Callable[[int], list[Observer]] | None = None) -> None:
        self.probes, self.extra = probes, extra
        self.name = "accessibility of " + " ".join(p.fingerprint for p in probes)

    def __call__(self, steps_per_epoch: int) -> Sequence[Observer]:
        """Return the recorders, then the others."""
        own: list[Observer] = [AccessibilityRecorder(p.x, p.y, every=steps_per_epoch) for p in self.probes]
        return own + (self.extra(steps_per_epoch) if self.extra else [])


def histories(
    spec: ModelSpec, n: int, train: ImageData, recipe: Recipe, *probes: ImageData, label: str
) -> tuple[list[Trained], list[AccessibilityHistory]]:
    """Train an ensemble and return its networks and one history per probe set."""
    nets = train_ensemble(spec, n, train, recipe, observe=Watch(*probes), label=label)
    return nets, [history_of([net.records[i] for net in nets]) for i in range(len(probes))]


def trained_models(spec: ModelSpec, nets: list[Trained]) -> list[nn.Module]:
    """The networks with their trained weights."""
    return [net.into(spec(net.seed)) for net in nets]


def mean_and_spread(values: Sequence[float]) -> tuple[float, float]:
    """Mean and standard deviation over seeds (0 for a single one)."""
    row = torch.tensor(list(values), dtype=torch.float64)
    return float(row.mean()), float(row.std()) if len(row) > 1 else 0.0


def is_non_decreasing(values: Sequence[float]) -> bool:
    """Whether no value lies below the one before it."""
    return all(b >= a for a, b in pairwise(values))
