"""The learning order of a user's images, from an ensemble trained within minutes."""

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight._internal.store.runs import Store
from firstlight.data.images import ImageData, even_sample
from firstlight.data.interventions.normalisation import ChannelNormalisation
from firstlight.data.shown_images import shown_images
from firstlight.measures.learning_order.accessibility import (
    AccessibilityHistory,
    RecordAccessibility,
    history_of,
)
from firstlight.measures.learning_order.discriminability import penultimate_features
from firstlight.models.building import ModelSpec
from firstlight.questions.order.measure import OrderReport, learning_order
from firstlight.training.ensemble import train_ensemble
from firstlight.training.recipe import Recipe

SIDE = 16  # larger images are averaged down: the order hardly changes, the time does
SECONDS_AN_IMAGE = 4e-4  # forward and backward at that size, one core
MOST_EPOCHS = 20


@dataclass(frozen=True, kw_only=True)
class OrderTour(Result):
    """Which images an ensemble learned first and last.

    Parameters
    ----------
    report : OrderReport
        Everything measured; its pictures are the images in full size, and their indices are those of the
        caller's images.
    index : integer Tensor of shape (n,)
        Which of the caller's images were followed: ``report.scores[i]`` is that of image ``index[i]``.
    data_name, n_images, recipe : str or int
        What was trained, in words.
    seconds : float
        What it took.
    """

    report: OrderReport
    index: Int[Tensor, " n"]
    data_name: str
    n_images: int
    recipe: str
    seconds: float


def run_order_tour(
    train: ImageData,
    *,
    minutes: float = 1.0,
    n_networks: int = 6,
    n_images: int = 2000,
    seed: int = 0,
    store: Store | None = None,
) -> OrderTour:
    """Train an ensemble of small CNNs within a time budget and report the order in which it learned.

    Parameters
    ----------
    train : ImageData
        Images in [0, 1]; a sample of them is used.
    minutes : float, default 1.0
        Of one core. The number of epochs follows from it, and of networks if that is not enough.
    n_networks : int, default 6
        At best; in three ensembles, the third of which picks the fastest images.
    n_images : int, default 2000
        At most.
    seed : int, default 0
        Of sample and networks.
    store : Store, optional
        Networks that are there already are not trained again.
    """
    if not minutes > 0 or n_networks < 1 or n_images < 4:
        raise InvalidInput(
            f"`minutes` must be positive, `n_networks` at least 1, `n_images` at least 4; "
            f"got {minutes}, {n_networks}, {n_images}."
        )
    start = time.perf_counter()
    index = even_sample(train.y, min(n_images, len(train)), n_classes=train.n_classes, seed=seed)
    chosen = train.take(index)
    small = _shrunk(chosen)
    small = ChannelNormalisation.fit(small).transform(small)
    passes = 60 * minutes / (SECONDS_AN_IMAGE * len(small))
    nets = max(1, min(n_networks, int(passes // 3)))
    epochs = max(1, min(MOST_EPOCHS, int(passes / nets)))
    recipe = Recipe(lr=0.05, batch_size=32, epochs=epochs, seed=seed)
    spec = ModelSpec(name="small", classes=small.n_classes, shape=small.shape, options={"width": 0.5})
    trained = train_ensemble(
        spec, nets, small, recipe, observe=_recording(small), store=store, label="Training the ensemble"
    )
    history = history_of([net.records[0] for net in trained])
    features = [penultimate_features(net.into(spec(net.seed)), small.x) for net in trained]
    report = learning_order(history, chosen, features=features, n_shown=min(24, len(chosen)), seed=seed)
    return OrderTour(
        report=dataclasses.replace(
            report,
            earliest=report.earliest.within(index),
            latest=report.latest.within(index),
            suspects=report.suspects.within(index),
        ),
        index=index,
        data_name=str(train.meta.get("name", "images")),
        n_images=len(chosen),
        recipe=f"{nets} networks, {epochs} epochs, SGD, rate {recipe.lr}, batch 32, "
        f"images of {small.shape[1]} x {small.shape[2]}",
        seconds=time.perf_counter() - start,
    )


def order_from_training(
    histories: Sequence[AccessibilityHistory],
    train: ImageData,
    *,
    recipe: str,
    n_predicted: int = 2000,
    n_shown: int = 24,
    seed: int = 0,
) -> OrderTour:
    """Report the order in which networks learned the images they were trained on.

    Parameters
    ----------
    histories : sequence of AccessibilityHistory
        Of each network; they may have trained for different numbers of epochs.
    train : ImageData
        The images, in the order of the histories.
    recipe : str
        How the networks were trained, in words.
    n_predicted : int, default 2000
        Size of the sample on which agreement, predictors and doubtful labels are measured; other images have no
        suspicion. First and last images are chosen among all.
    n_shown : int, default 24
        Images of each kind.
    seed : int, default 0
        Seed for the sample, and for the order of images that were learned equally early.
    """
    start = time.perf_counter()
    scores = torch.stack([history.scores for history in histories]).mean(0)
    index = even_sample(train.y, min(n_predicted, len(train)), n_classes=train.n_classes, seed=seed)
    report = learning_order([history.take(index) for history in histories], train.take(index), seed=seed)
    # thousands of images are right after every epoch: which of them are shown is left to chance
    drawn = torch.randperm(len(scores), generator=generator_from("order shown", seed))
    ranked = drawn[scores[drawn].argsort(descending=True, stable=True)]
    n_shown = min(n_shown, len(train))
    return OrderTour(
        report=dataclasses.replace(
            report,
            scores=scores,
            earliest=shown_images(ranked[:n_shown], train),
            latest=shown_images(ranked.flip(0)[:n_shown], train),
            suspicion=scores.new_full(scores.shape, math.nan).index_copy(
                0, index, report.suspicion.to(scores)
            ),
            suspects=report.suspects.within(index),
        ),
        index=torch.arange(len(train)),
        data_name=str(train.meta.get("name", "images")),
        n_images=len(train),
        recipe=recipe,
        seconds=time.perf_counter() - start,
    )


def _recording(data: ImageData) -> RecordAccessibility:
    return RecordAccessibility(data.x, data.y, name=f"accessibility of {data.fingerprint}")


def _shrunk(data: ImageData) -> ImageData:
    factor = min(data.shape[1:]) // SIDE
    return data if factor < 2 else data.map(lambda x: F.avg_pool2d(x, factor), shrunk=factor)
