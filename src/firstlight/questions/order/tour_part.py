"""The learning order of the images that networks were trained on."""

import dataclasses
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData, even_sample, shown_images
from firstlight.measures.learning_order.accessibility import (
    AccessibilityHistory,
)
from firstlight.questions.order.measure import OrderReport, learning_order


@dataclass(frozen=True, kw_only=True)
class OrderTour(Result):
    """Which images networks learned first and last.

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
    report = learning_order(
        [history.take(index) for history in histories],
        train.take(index),
        n_shown=min(n_shown, len(index)),
        seed=seed,
    )
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
