"""How much of the classes survives, layer by layer: a classifier that only averages."""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.data.images import ImageData
from reproduce.studies.identity.layer_images import stage_outputs


def class_sums(
    features: Float[Tensor, "n d"], labels: Int[Tensor, " n"], *, n_classes: int
) -> Float[Tensor, "classes d"]:
    r"""Sum of the representations of every class, :math:`S_c = \sum_{y_j = c} \phi(x_j)`, in float64."""
    sums = torch.zeros(n_classes, features.shape[1], dtype=torch.float64)
    return sums.index_add_(0, labels, features.double())


def averaging_votes(
    features: Float[Tensor, "n d"], sums: Float[Tensor, "classes d"]
) -> Float[Tensor, "n classes"]:
    r"""Votes of the averaging classifier.

    .. math:: \sum_j \langle\phi(x_i), \phi(x_j)\rangle\, 1[y_j = c] = \langle\phi(x_i), S_c\rangle

    Every training image votes for its class with its similarity; linear, so the class sums are enough:
    O(d) per class and test image instead of O(n d).

    References
    ----------
    .. [1] IdentityCrisis, section 3.2.
    """
    return features.double() @ sums.mT


@dataclass(frozen=True, kw_only=True)
class LayerProbe(Result):
    """Error of the averaging classifier on the input and behind every layer.

    Parameters
    ----------
    errors : Tensor of shape (layers,)
        The first entry is the input itself, the last the output.
    chance : float
        Error of always naming the largest class.
    """

    errors: Float[Tensor, " layers"]
    chance: float


@follows_device
def layer_probe(model: nn.Module, train: ImageData, test: ImageData, *, batch_size: int = 100) -> LayerProbe:
    """Classify `test` by similarity with `train`, in the input and in every layer's representation.

    The representation of a layer is what it hands to the next one, after its activation. Classes of
    unequal size vote with unequal weight: draw them evenly. One pass over each split, memory of one
    batch and the class sums.

    Parameters
    ----------
    model : torch.nn.Module
        A chain, see :func:`reproduce.studies.identity.layer_images.weight_layers`.
    train, test : ImageData
        Labelled images as the network sees them.
    batch_size : int, default 100
        Images at a time.
    """
    if train.classes != test.classes:
        raise InvalidInput(f"`train` and `test` must share classes; got {train.classes} and {test.classes}.")
    sums: list[Tensor] = []
    for x, y in _batches(train, batch_size):
        parts = [class_sums(f, y, n_classes=train.n_classes) for f in _features(model, x)]
        # S_c is all that the votes need: one pass over the training images, in any order
        sums = [a + b for a, b in zip(sums, parts, strict=True)] if sums else parts
    wrong = torch.zeros(len(sums), dtype=torch.float64)
    for x, y in _batches(test, batch_size):
        for layer, features in enumerate(_features(model, x)):
            # ⟨φ(x), S_c⟩ → the class with most votes
            wrong[layer] += (averaging_votes(features, sums[layer]).argmax(1) != y).sum()
    return LayerProbe(errors=wrong / len(test), chance=1 - float(test.counts.max()) / len(test))


def _features(model: nn.Module, x: Tensor) -> list[Tensor]:
    return [layer.flatten(1) for layer in (x, *stage_outputs(model, x))]


def _batches(data: ImageData, size: int) -> list[tuple[Tensor, Tensor]]:
    return list(zip(torch.split(data.x, size), torch.split(data.y, size), strict=True))
