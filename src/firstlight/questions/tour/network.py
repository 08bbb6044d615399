"""The tour's part on the network itself: who it is, how accurate it is, and the film of its first layer."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.result import Result
from firstlight.questions.tour.subject import Studied, Subject, film_of


@dataclass(frozen=True, kw_only=True)
class NetworkTour(Result):
    """Who the network is.

    Parameters
    ----------
    recipe : str
        How it was trained, in words.
    n_test : int
        Number of test images.
    chance : float
        Test accuracy without learning.
    names : tuple of str
        All networks of the tour: the one in question, its siblings, its controls.
    train_accuracy, test_accuracy : Tensor of shape (networks,)
        Of each of them.
    losses : Tensor of shape (epochs,)
        Mean training loss of every epoch of the network in question.
    steps : tuple of int
        Moments of the film.
    film : Tensor of shape (t, k, c, h, w)
        Filters of its first layer at those moments.
    """

    recipe: str
    n_test: int
    chance: float
    names: tuple[str, ...]
    train_accuracy: Float[Tensor, " networks"]
    test_accuracy: Float[Tensor, " networks"]
    losses: Float[Tensor, " epochs"]
    steps: tuple[int, ...]
    film: Float[Tensor, "t k c h w"]


def run_network_tour(subject: Subject) -> NetworkTour:
    """Collect what the training left; needs no images where the network comes from the bank."""
    controls = [(words, one) for words, one in subject.controls.items()]
    everyone = [(one.name, one) for one in subject.networks] + controls
    first = subject.networks[0]
    steps, film = film_of(first)
    return NetworkTour(
        recipe=subject.recipe,
        n_test=subject.n_test,
        chance=subject.chance,
        names=tuple(name for name, _ in everyone),
        train_accuracy=_of_all(everyone, "train_accuracy"),
        test_accuracy=_of_all(everyone, "test_accuracy"),
        losses=first.losses.double(),
        steps=steps,
        film=film.float(),
    )


def _of_all(networks: list[tuple[str, Studied]], what: str) -> Tensor:
    return torch.tensor([getattr(one, what) for _, one in networks], dtype=torch.float64)
