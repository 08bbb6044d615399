"""What a tour looks at: a trained network of the bank with its history, or one trained on the user's own images."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight._internal.store.runs import Store
from firstlight.data.catalogue import fetch, load
from firstlight.data.entries import DATASETS, DataSet
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation
from firstlight.measures.learning_order.accessibility import (
    AccessibilityHistory,
    AccessibilityRecorder,
    history_of,
)
from firstlight.models.building import ModelSpec
from firstlight.networks.bank import Network, load_network, network_names
from firstlight.networks.definitions import PLAIN, SCALING, TITLES
from firstlight.networks.history import first_convolution_name
from firstlight.training.ensemble import Trained, train_ensemble
from firstlight.training.loop import accuracy
from firstlight.training.observers import Observer, Snapshots, geometric_steps
from firstlight.training.recipe import Recipe

SUBJECT = "resnet20-cifar10-0"
CONTROLS = {"random labels": "random", "first layer frozen": "frozen"}
"""What kinds of the bank are controls, by the ending of their names."""

# An epoch of the small networks, forwards and backwards with one look at all images, on one core.
SECONDS_A_PIXEL = 1.2e-6
MOST_SIDE = 64  # larger images are averaged down: training time grows with the area
EPOCHS = (1, 5, 20)  # least, usual and most: five epochs of 10,000 images give 70 % on CIFAR-10


@dataclass(frozen=True, kw_only=True, eq=False)
class Studied:
    """A trained network with its history.

    Parameters
    ----------
    name : str
        How pages call it.
    model, initial : torch.nn.Module
        After and before training, in evaluation mode.
    film_steps, film : Tensor of shape (t,) and (t, k, c, h, w)
        Moments of the training, and the filters of the first layer at each.
    losses : Tensor of shape (epochs,)
        Mean training loss of every epoch.
    history : AccessibilityHistory or None
        Which training images were classified correctly after every epoch.
    train_accuracy, test_accuracy : float
        At the end of training.
    """

    name: str
    model: nn.Module
    initial: nn.Module
    film_steps: Tensor
    film: Tensor
    losses: Tensor
    history: AccessibilityHistory | None
    train_accuracy: float
    test_accuracy: float


class Subject(ABC):
    """What the parts of a tour share: the network in question, its siblings, its controls and the images.

    Parameters
    ----------
    name, data_name, recipe : str
        The network in question, the images it was trained on, and how, in words.
    n_train, n_test : int
        Number of images.
    chance : float
        Test accuracy without learning.
    seed : int
        Seed for the choice of images and for the nulls.
    why : str
        Why the images at hand are not those that the networks were trained on; empty if they are.
    is_quick : bool
        Whether parts should do as little as shows that they run.
    """

    name: str
    data_name: str
    recipe: str
    n_train: int
    n_test: int
    chance: float
    seed: int
    why: str = ""
    is_quick: bool = False

    @property
    @abstractmethod
    def networks(self) -> list[Studied]:
        """The network in question first, then others that learned the same task."""

    @property
    @abstractmethod
    def controls(self) -> dict[str, Studied]:
        """Networks that could not learn the task, or not all of it, by what was done to them."""

    @property
    @abstractmethod
    def pixels(self) -> tuple[ImageData, ImageData]:
        """Training and test images in [0, 1]; those for training in the order of the histories."""

    @abstractmethod
    def seen(self, images: ImageData) -> ImageData:
        """Images as the networks see them."""

    @property
    @abstractmethod
    def config(self) -> dict[str, Any]:
        """What decides the results, for the name of the stored run."""

    def sample(self, n: int, *, split: str = "train") -> ImageData:
        """A fair sample of the images, as the networks see them."""
        pixels = self.pixels[split == "test"]
        return self.seen(pixels.sample(min(n, len(pixels)), seed=self.seed))


class BankSubject(Subject):
    """A network of the bank, trained once on all images of a data set.

    Parameters
    ----------
    name : str, default SUBJECT
        Of the network.
    seed : int, default 0
        Seed for the choice of images and for the nulls.
    """

    def __init__(self, name: str = SUBJECT, *, seed: int = 0) -> None:
        self.network, self.seed = load_network(name), seed
        self.name, self.card = self.network.title, self.network.card
        self._set = self.network.definition.data
        self.data_name = TITLES.get(self._set, self._set)
        entry = DATASETS[self._set]
        assert isinstance(entry, DataSet)
        self.n_train, self.n_test = int(self.card["data"]["n"]), entry.counts["test"]
        self.chance = 1 / int(self.card["architecture"]["classes"])
        self.recipe = (
            f"{self.card['recipe']['epochs']} epochs over {self.n_train:,} images, {self.card['cpu_hours']:.1f} CPU "
            "hours, by the recipe on its card"
        )
        try:
            fetch(self._set)
        except DataUnavailable as error:
            self.why = str(error)

    @cached_property
    def pixels(self) -> tuple[ImageData, ImageData]:
        """Images of the data set, or photographs if those cannot be had."""
        name = "photos" if self.why else self._set
        return load(name, "train"), load(name, "test")

    def seen(self, images: ImageData) -> ImageData:
        """Scale the pixels as on the card."""
        return images.scaled(*SCALING[self._set])

    @property
    def config(self) -> dict[str, Any]:
        """The networks, by the checksums of their files."""
        kept = [one.card["files"] for one in (self.network, *self._siblings)]
        return {"networks": kept, "images": "photos" if self.why else self._set, "seed": self.seed}

    @cached_property
    def networks(self) -> list[Studied]:
        """The network, other seeds of its kind, and other kinds that were trained on the same images."""
        return [_from_bank(one) for one in (self.network, *self._siblings)]

    @cached_property
    def controls(self) -> dict[str, Studied]:
        """Siblings with random labels and with a frozen first layer, as far as they are in the bank."""
        kind, _, seed = self.network.name.rpartition("-")
        found = {words: f"{kind}-{ending}-{seed}" for words, ending in CONTROLS.items()}
        here = network_names()
        return {words: _from_bank(load_network(name)) for words, name in found.items() if name in here}

    @cached_property
    def _siblings(self) -> list[Network]:
        ours = self.network.definition
        others = [load_network(name) for name in network_names() if name != self.network.name]
        return [
            one
            for one in others
            if one.definition.data == ours.data
            and one.definition.n_images is None
            and not one.definition.recipe.frozen
        ]


def _from_bank(network: Network) -> Studied:
    last = network.card["accuracies"][str(network.moments[-1])]
    steps, film = network.film
    epochs = len(network.correct)
    return Studied(
        name=network.title,
        model=network.model,
        initial=network.initial,
        film_steps=steps,
        film=film,
        losses=network.losses.double().reshape(epochs, -1).mean(1),
        history=network.history,
        train_accuracy=float(last["train"]),
        test_accuracy=float(last["test"]),
    )


class TrainedSubject(Subject):
    """Networks that are trained within a time budget, with the recipe of the bank.

    Parameters
    ----------
    train, test : ImageData
        Images in [0, 1].
    minutes : float, default 2.0
        Time for the training on two cores; decides the number of epochs.
    n_networks : int, default 2
        At least two, with seeds `seed`, `seed + 1`, ...
    seed : int, default 0
        Seed for all random choices.
    store : Store, optional
        Networks that are there already are not trained again.
    """

    def __init__(
        self,
        train: ImageData,
        test: ImageData,
        *,
        minutes: float = 2.0,
        n_networks: int = 2,
        seed: int = 0,
        store: Store | None = None,
    ) -> None:
        if n_networks < 2:
            raise InvalidInput(f"`n_networks` must be at least 2, to compare them; got {n_networks}.")
        self._pixels = _small_enough(train), _small_enough(test)
        self.minutes, self.n_networks, self.seed, self.store = minutes, n_networks, seed, store
        self.data_name = str(train.meta.get("name", "images"))
        self.n_train, self.n_test = len(train), len(test)
        self.chance = float(test.counts.max()) / len(test)
        self.is_quick = minutes < 1
        self.name = f"{self.spec.name}, seed {seed}"
        self._scaling = ChannelNormalisation.fit(self._pixels[0])
        self.recipe = (
            f"{n_networks} networks ({self.spec.name}), {self.training.epochs} epochs, SGD with Nesterov momentum, one "
            f"cycle up to a rate of {self.training.lr}, batch {self.training.batch_size}"
        )

    @property
    def pixels(self) -> tuple[ImageData, ImageData]:
        """The user's images, averaged down if they are large."""
        return self._pixels

    @property
    def controls(self) -> dict[str, Studied]:
        """None: they would have to be trained, too."""
        return {}

    @property
    def spec(self) -> ModelSpec:
        """A VGG with four convolutions, or the small network where images have fewer than 16 pixels a side."""
        shape = self.pixels[0].shape
        if min(shape[1:]) >= 16:
            return ModelSpec(name="vgg5", classes=self.pixels[0].n_classes, shape=shape)
        return ModelSpec(
            name="small", classes=self.pixels[0].n_classes, shape=shape, options={"batch_norm": True}
        )

    @property
    def training(self) -> Recipe:
        """The recipe of the bank, with as many epochs as the time allows."""
        shape, n = self.pixels[0].shape, len(self.pixels[0])
        seconds = SECONDS_A_PIXEL * shape[1] * shape[2] * n * -(-self.n_networks // 2)
        least, usual, most = EPOCHS
        # few images need more epochs for the same number of steps
        wanted = min(most, max(usual, usual * 10_000 // (2 * n)))
        return dataclasses.replace(
            PLAIN,
            lr=0.1,
            batch_size=64,
            epochs=max(least, min(wanted, int(60 * self.minutes / seconds))),
            flips=shape[0] == 3,  # a mirrored digit is another sign
            shifts=min(shape[1:]) // 8,
            seed=self.seed,
        )

    def seen(self, images: ImageData) -> ImageData:
        """Channels of mean 0 and variance 1 over the training images."""
        return self._scaling.transform(images)

    @property
    def config(self) -> dict[str, Any]:
        """Settings and images."""
        return {
            "minutes": self.minutes,
            "networks": self.n_networks,
            "seed": self.seed,
            "images": f"{self.pixels[0].fingerprint} {self.pixels[1].fingerprint}",
        }

    @cached_property
    def networks(self) -> list[Studied]:
        """The networks, trained when the first part asks for them."""
        train = self.seen(self.pixels[0])
        recipe = self.training
        observe = RecordTraining(train, recipe.total_steps(len(train)), first_convolution_name(self.spec(0)))
        nets = train_ensemble(
            self.spec, self.n_networks, train, recipe,
            observe=observe, store=self.store, label="Training networks",
        )  # fmt: skip
        test = self.seen(self.pixels[1])
        return [self._studied(net, train, test, observe.weight) for net in nets]

    def _studied(self, net: Trained, train: ImageData, test: ImageData, weight: str) -> Studied:
        model, shots = net.into(self.spec(net.seed)).eval(), net.records[0]
        return Studied(
            name=f"{self.spec.name}, seed {net.seed}",
            model=model,
            initial=self.spec(net.seed).eval(),
            film_steps=shots["steps"],
            film=shots[weight],
            losses=net.history.by_epoch(),
            history=history_of([net.records[1]]),
            train_accuracy=accuracy(model, train),
            test_accuracy=accuracy(model, test),
        )


@dataclass(frozen=True)
class RecordTraining:
    """Makes the observers of one training; named, so that the run can be stored."""

    data: ImageData
    total: int
    weight: str

    @property
    def name(self) -> str:
        """What is recorded, of which images."""
        return f"film of {self.weight} and accessibility of {self.data.fingerprint}"

    def __call__(self, steps_per_epoch: int) -> Sequence[Observer]:
        """Watch the first layer, most closely at the start, and all images after every epoch."""
        return [
            Snapshots([self.weight], steps=geometric_steps(self.total, count=60)),
            AccessibilityRecorder(self.data.x, self.data.y, every=steps_per_epoch),
        ]


def _small_enough(data: ImageData) -> ImageData:
    factor = min(data.shape[1:]) // MOST_SIDE
    return data if factor < 2 else data.map(lambda x: F.avg_pool2d(x, factor), shrunk=factor)


def chosen_subject(
    network: str | None, images: tuple[ImageData, ImageData] | None, *, minutes: float, seed: int
) -> Subject:
    """The network of the bank, unless there are images to train on."""
    if images is not None:
        return TrainedSubject(*images, minutes=minutes, seed=seed, store=Store())
    return BankSubject(SUBJECT if network is None else network, seed=seed)


def film_of(studied: Studied) -> tuple[tuple[int, ...], Tensor]:
    """Steps, and filters of the first layer at each of them."""
    return tuple(int(step) for step in studied.film_steps), torch.as_tensor(studied.film)
