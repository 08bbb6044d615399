"""The tour's part on training: how well the networks classify."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.result import Result
from firstlight.questions.tour.shared_trainings import Stage
from firstlight.training.loop import accuracy


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


def run_training_tour(stage: Stage) -> TrainingTour:
    """Measure the accuracy and the loss of the networks of the tour."""
    return TrainingTour(
        recipe=stage.recipe_words,
        train_accuracy=torch.tensor([accuracy(m, stage.train) for m in stage.models]),
        test_accuracy=torch.tensor([accuracy(m, stage.test) for m in stage.models]),
        chance=float(stage.test.counts.max()) / len(stage.test),
        loss=torch.stack([net.history.by_epoch() for net in stage.nets]),
    )
