"""A short study of small networks on real images: what the tour page shows, part by part."""

import dataclasses
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.core.errors import InvalidInput
from firstlight.core.result import Result
from firstlight.core.shapes import Images
from firstlight.data import load
from firstlight.data.images import ImageData
from firstlight.estimators import ConvRFMClassifier
from firstlight.insights.ansatz_tour import AnsatzTour, ansatz_tour
from firstlight.insights.first_layer_tour import FirstLayerSnapshots, FirstLayerTour, first_layer_tour
from firstlight.insights.identity_tour import IdentityTour, run_identity_tour
from firstlight.insights.order_tour import OrderTour, run_order_tour
from firstlight.insights.regime import RegimeResult, regime
from firstlight.insights.rfm import LearnedKernel, learn_kernel
from firstlight.measures.first_layer import patch_basis
from firstlight.models.spec import ModelSpec
from firstlight.store import Store
from firstlight.training import Recipe, Trained, accuracy, train_ensemble

SECONDS_A_STEP = 0.05  # small network, batch of 32, one core; only decides how long we train
N_SHOWN = 24


@dataclass(frozen=True, kw_only=True)
class ImagesTour(Result):
    """What the images are like before any network sees them.

    Parameters
    ----------
    shown, labels : Tensor of shape (n, c, h, w) or tuple of str
        Some images and their classes.
    components : Tensor of shape (m, channels, side, sides)
        Of the patches that the first layer will see, by decreasing variance.
    variances : Tensor of shape (m,)
        Of those components.
    """

    shown: Images
    labels: tuple[str, ...]
    components: Float[Tensor, "m channels side sides"]
    variances: Float[Tensor, " m"]


@dataclass(frozen=True, kw_only=True)
class TrainingTour(Result):
    """How well the networks of the tour were trained.

    Parameters
    ----------
    recipe : str
        In words.
    train_accuracy, test_accuracy : Tensor of shape (nets,)
        Of every network.
    chance : float
        Share of the largest class among the test images.
    loss : Tensor of shape (nets, epochs)
        Of every network and epoch.
    """

    recipe: str
    train_accuracy: Float[Tensor, " nets"]
    test_accuracy: Float[Tensor, " nets"]
    chance: float
    loss: Float[Tensor, "nets epochs"]


@dataclass(frozen=True, kw_only=True)
class Tour(Result):
    """Everything that a tour measured so far; parts that are still to come are None.

    Parameters
    ----------
    data_name, n_images : str or int
        What was studied.
    pending : tuple of str, default ()
        Names of the parts to come.
    seconds : float, default 0.0
        Taken so far.
    """

    data_name: str
    n_images: int
    pending: tuple[str, ...] = ()
    seconds: float = 0.0
    images: ImagesTour | None = None
    first_layer: FirstLayerTour | None = None
    training: TrainingTour | None = None
    ansatz: AnsatzTour | None = None
    order: OrderTour | None = None
    regime: RegimeResult | None = None
    kernel: LearnedKernel | None = None
    identity: IdentityTour | None = None


@dataclass(frozen=True, kw_only=True)
class Stage:
    """What every part of a tour may use; networks are trained when the first part asks for them."""

    train: ImageData
    test: ImageData
    minutes: float
    n_networks: int
    seed: int
    store: Store | None

    @property
    def spec(self) -> ModelSpec:
        """The small network."""
        return ModelSpec(name="small", classes=self.train.n_classes, shape=self.train.shape)

    @property
    def recipe(self) -> Recipe:
        """As many epochs as two fifths of the time allow, at most twelve."""
        rounds = -(-self.n_networks // 2)
        per_epoch = -(-len(self.train) // 32)
        affordable = int(0.4 * 60 * self.minutes / rounds / SECONDS_A_STEP / per_epoch)
        return Recipe(lr=0.1, batch_size=32, epochs=max(1, min(12, affordable)), seed=self.seed)

    @cached_property
    def nets(self) -> list[Trained]:
        """The networks of the tour, with snapshots of their first layers."""
        observe = FirstLayerSnapshots(self.recipe.total_steps(len(self.train)))
        return train_ensemble(
            self.spec, self.n_networks, self.train, self.recipe,
            observe=observe, store=self.store, label="Training networks",
        )  # fmt: skip

    @cached_property
    def models(self) -> list[nn.Module]:
        """The same as modules."""
        return [net.into(self.spec(net.seed)) for net in self.nets]


def _images(stage: Stage) -> ImagesTour:
    shown = stage.train.sample(min(N_SHOWN, len(stage.train)), seed=stage.seed)
    layer, pca = patch_basis(stage.spec(stage.seed), stage.train)
    return ImagesTour(
        shown=shown.x,
        labels=tuple(shown.classes[int(y)] for y in shown.y),
        components=pca.basis.mT.reshape(-1, *layer.weight.shape[1:]),
        variances=pca.variances,
    )


def _first_layer(stage: Stage) -> FirstLayerTour:
    return first_layer_tour(stage.spec, stage.nets, stage.models, stage.train, seed=stage.seed)


def _training(stage: Stage) -> TrainingTour:
    recipe = stage.recipe
    return TrainingTour(
        recipe=f"{stage.n_networks} networks, SGD, rate {recipe.lr}, batch 32, {recipe.epochs} epochs",
        train_accuracy=torch.tensor([accuracy(m, stage.train) for m in stage.models]),
        test_accuracy=torch.tensor([accuracy(m, stage.test) for m in stage.models]),
        chance=float(stage.test.counts.max()) / len(stage.test),
        loss=torch.stack([net.history.by_epoch() for net in stage.nets]),
    )


def _ansatz(stage: Stage) -> AnsatzTour:
    return ansatz_tour(stage.models[0], stage.spec(stage.nets[0].seed), stage.test, seed=stage.seed)


def _order(stage: Stage) -> OrderTour:
    return run_order_tour(stage.train, minutes=0.3 * stage.minutes, seed=stage.seed, store=stage.store)


def _identity(stage: Stage) -> IdentityTour:
    depths = (1, 3, 5, 10, 20) if stage.minutes >= 1 else (1, 5)
    return run_identity_tour(depths=depths, store=stage.store)


def _regime(stage: Stage) -> RegimeResult:
    held_out = stage.test.sample(min(500, len(stage.test)), seed=stage.seed)
    return regime(
        stage.models[0], stage.train, initial=stage.spec(stage.nets[0].seed), test=held_out, n_kernel=32,
        n_fit=150 if stage.minutes >= 1 else 20, with_ansatz=False, seed=stage.seed,
    )  # fmt: skip


def _kernel(stage: Stage) -> LearnedKernel:
    n, depth = (300, 2) if stage.minutes >= 1 else (60, 1)
    machine = ConvRFMClassifier(depth=depth, rounds=2, patience=None, random_state=stage.seed)
    train = stage.train.sample(min(n, len(stage.train)), seed=stage.seed)
    test = stage.test.sample(min(500, len(stage.test)), seed=stage.seed)
    photos = load("photos", split="test", n=6, seed=stage.seed).x
    return learn_kernel(train, test, photos, machine=machine)


# A part of the tour is a field of `Tour` and a function here, in the order in which a reader sees them grow; the page
# needs an entry of the same name in `firstlight.report.tour.PARTS`.
PARTS: dict[str, Callable[[Stage], Any]] = {
    "images": _images,
    "first_layer": _first_layer,
    "training": _training,
    "ansatz": _ansatz,
    "order": _order,
    "regime": _regime,
    "kernel": _kernel,
    "identity": _identity,
}


def run_tour(
    train: ImageData,
    test: ImageData,
    *,
    minutes: float = 5.0,
    n_networks: int = 3,
    seed: int = 0,
    store: Store | None = None,
    listen: Callable[[Tour], None] = lambda tour: None,
) -> Tour:
    """Train a few small networks on `train` and measure what they learned, in what order, and why.

    Parameters
    ----------
    train, test : ImageData
        Images in [0, 1].
    minutes : float, default 5.0
        What the whole may take on two cores; decides the number of steps.
    n_networks : int, default 3
        At least two, with seeds `seed`, `seed + 1`, ...
    store : Store, optional
        Networks that are there already are not trained again.
    listen : callable, default lambda tour: None
        Told what there is before the first part and after each of them.
    """
    if n_networks < 2:
        raise InvalidInput(f"`n_networks` must be at least 2, to compare them; got {n_networks}.")
    start = time.perf_counter()
    stage = Stage(
        train=train, test=test, minutes=minutes, n_networks=n_networks, seed=seed, store=store
    )  # fmt: skip
    names = tuple(PARTS)
    tour = Tour(data_name=str(train.meta.get("name", "images")), n_images=len(train), pending=names)
    listen(tour)
    for done, (name, part) in enumerate(PARTS.items(), start=1):
        found = part(stage)
        seconds = time.perf_counter() - start
        tour = dataclasses.replace(tour, pending=names[done:], seconds=seconds, **{name: found})
        listen(tour)
    return tour
