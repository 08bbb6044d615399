"""Studies of single layers: what they keep, how far they move, which of them are trained."""

from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.devices import follows_device
from firstlight._internal.result import Result
from firstlight.data import ImageData, load
from firstlight.data.interventions import MNIST_NORMALISATION, ChannelNormalisation
from firstlight.maths import spearman
from firstlight.questions.copy_or_memorise.images import resized
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity import common
from reproduce.studies.identity.common import DESK, DESK_28, DESK_FCN, NIGHT, SMOKE, SMOKE_FCN
from reproduce.studies.identity.layer_images import layer_images, stage_outputs, weight_changes

TWO_LAYERS = replace(DESK_FCN, depth=2, stop_below=1e-3)
GAP = "gain of the constant from training both layers"


@study("id.fig12.bottom_only")
class BottomOnly(Study):
    """Does training only the bottom of two layers leave noise where training both leans to the constant?"""

    # Two layers of several widths, trained both ways from the same weights.
    base: IdentityTask = TWO_LAYERS
    widths: tuple[int, ...] = (2048, 16_384)
    bottom_lr: float = 1.0  # the bottom alone learns slowly
    bottom_steps: int = 500

    scales = {"smoke": dict(base=replace(SMOKE_FCN, depth=2), widths=(16, 32), bottom_steps=4)}

    def run(self) -> Measured:
        """Train both ways at every width."""
        both = [replace(self.base, seed=self.seed, width=width) for width in self.widths]
        changes: dict[str, Any] = {"frozen": ("fc2",), "lr": self.bottom_lr, "steps": self.bottom_steps}
        networks = common.trained([*both, *(replace(task, **changes) for task in both)], label="Bottom only")
        n = len(both)
        after = [common.constant_at_zero(network.after) for network in networks]
        losses = [network.after.loss for network in networks]
        labels = [f"{ways} {w}" for ways in ("both layers", "bottom only") for w in self.widths]
        return {
            "constant with both layers trained": by(self.widths, after[:n]),
            GAP: by(self.widths, [a - b for a, b in zip(after[:n], after[n:], strict=True)]),
            "initial constant": by(
                self.widths, [common.constant_at_zero(net.before) for net in networks[:n]]
            ),
            "loss": by(labels, losses),
        }


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


@study("id.probe.equivalence")
class ProbeEquivalence(Study):
    """Does voting by inner products equal comparing with class sums?"""

    # Images that vote, on their pixels.
    dataset: str = "mnist"
    n_images: int = 5000

    scales = {"smoke": dict(dataset="photos", n_images=60)}

    def run(self) -> Measured:
        """Vote both ways."""
        data = load(self.dataset, split="train", seed=self.seed)
        data = data.sample(min(self.n_images, len(data)), seed=self.seed)
        x = data.x.flatten(1).double()
        test = x[:200]
        slow = (test @ x.mT) @ F.one_hot(data.y, data.n_classes).double()
        fast = averaging_votes(test, class_sums(x, data.y, n_classes=data.n_classes))
        return {"largest difference of votes": float((slow - fast).abs().max())}


XAVIER = replace(DESK_28, initialiser="xavier_normal", steps=2000, stop_below=1e-3)
RANDOM, TRAINED, INITIAL = "random deep network", "trained network", "initial network"
TREND = "rank correlation of likeness with layer in the random deep network"
EARLY = 10  # layers over which the trend is taken


def _labelled(dataset: str, split: str, n: int, side: int, seed: int) -> ImageData:
    data = load(dataset, split=split, seed=seed)
    data = data.sample(min(n, len(data)), seed=seed)
    norm = MNIST_NORMALISATION if data.shape[0] == 1 else ChannelNormalisation.fit(data)
    return data.replace(x=norm.normalised(resized(data.x, side)).float())


def _likeness(model: nn.Module, images: Tensor) -> Tensor:
    """Absolute Pearson of every layer's top singular image with the input, mean over inputs."""
    return torch.stack([layer_images(model, image).singular_similarity for image in images]).mean(0)


@study(
    "id.fig5.probe_random", "id.fig5.probe_trained", "id.fig15.random_smoothing", "id.fig15.trained_layers"
)
class Probes(Study):
    """How much of the input survives each layer of an untrained and of a trained network?"""

    # A random deep network, and one of moderate depth before and after training.
    base: IdentityTask
    trained: IdentityTask = XAVIER
    depth: int = 10
    random_depth: int = 20
    n_train: int = 2000
    n_test: int = 500
    n_shown: int = 5  # unseen images whose singular images are taken

    drawn = {f"error in the {TRAINED}": "trained", f"error in the {RANDOM}": "initial", "chance": "null"}
    axes = ("layer (0 is the input)", "error of the averaging classifier")
    scales = {
        "smoke": dict(base=SMOKE, trained=SMOKE, depth=3, random_depth=10, n_train=40, n_test=20),
        "desk": dict(base=DESK_28),
    }

    def run(self) -> Measured:
        """Probe all three networks."""
        side, name = self.base.image_size, self.base.dataset
        data = [
            _labelled(name, split, n, side, self.seed)
            for split, n in (("train", self.n_train), ("test", self.n_test))
        ]
        random = replace(self.base, seed=self.seed, depth=self.random_depth)
        (network,) = common.trained([replace(self.trained, seed=self.seed, depth=self.depth)], label="Probes")
        models = {RANDOM: random.build(), TRAINED: network.model, INITIAL: network.task.build()}
        probes = {key: layer_probe(model, *data) for key, model in models.items()}
        unseen = random.images.unseen[: self.n_shown]
        shown = {RANDOM: random.images.training[:1], TRAINED: unseen, INITIAL: unseen}
        likeness = {key: _likeness(model, shown[key]) for key, model in models.items()}
        early = likeness[RANDOM][:EARLY]
        after, before = probes[TRAINED].errors, probes[INITIAL].errors
        return {
            **{f"error in the {key}": by(range(len(p.errors)), p.errors) for key, p in probes.items()},
            **{f"likeness in the {key}": by(range(1, len(v) + 1), v) for key, v in likeness.items()},
            TREND: float(spearman(torch.arange(len(early)).double(), early)),
            "chance": probes[RANDOM].chance,
            "largest error in the middle": float(after[1:-1].max()),
            "error at the output": float(after[-1]),
            "largest initial error in the middle": float(before[1:-1].max()),
            "initial error at the output": float(before[-1]),
            "loss": network.after.loss,
        }


LOW = "change of the lowest five layers of the FCN"


def changes(network: common.Network) -> Tensor:
    """Change of the weights of every layer, relative to their initial size."""
    initial = dict(network.task.build().state_dict())
    return torch.tensor(list(weight_changes(initial, network.after.weights).values()), dtype=torch.float64)


@study("id.fig19.weight_change")
class WeightChange(Study):
    """Which layers move, and do the lowest ones stay in place?"""

    # Convolutional networks by depth, and a fully connected one of eleven hidden layers.
    cnn: IdentityTask = DESK
    depths: tuple[int, ...] = (5, 10, 14, 20)
    fcn: IdentityTask = DESK_FCN
    fcn_depth: int = 12

    scales = {
        "smoke": dict(cnn=SMOKE, depths=(2, 3), fcn=SMOKE_FCN, fcn_depth=6),
        "night": dict(cnn=NIGHT),
    }

    def run(self) -> Measured:
        """Compare weights before and after."""
        tasks = [replace(self.cnn, seed=self.seed, depth=depth) for depth in self.depths]
        fcn = replace(self.fcn, seed=self.seed, depth=self.fcn_depth)
        networks = common.trained([*tasks, fcn], label="Weight change")
        *cnns, connected = (changes(network) for network in networks)
        return {
            "lead of the top layer": by(self.depths, [float(c[-1] - c[:-1].max()) for c in cnns]),
            "top layer over mean layer": by(self.depths, [float(c[-1] / c.mean()) for c in cnns]),
            "smallest change in the CNN": by(self.depths, [float(c.min()) for c in cnns]),
            LOW: float(connected[:5].max()),
            "change of the mean layer of the FCN": float(connected.mean()),
            "loss": by([*(f"CNN {d}" for d in self.depths), "FCN"], [net.after.loss for net in networks]),
        }
