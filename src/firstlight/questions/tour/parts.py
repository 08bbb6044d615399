"""The parts of a tour: here, and only here, a part is named, put in its place and given its runner."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.result import Result
from firstlight._internal.shapes import Images
from firstlight.data.catalogue import load
from firstlight.data.images import ImageData
from firstlight.estimators.convrfm import ConvRFMClassifier
from firstlight.measures.feature_ansatz.ansatz import Ansatz, ansatz_from
from firstlight.measures.feature_ansatz.layer_maps import (
    Eigenvectors,
    LayerMaps,
    layer_maps,
    top_eigenvectors,
)
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.questions.copy_or_memorise.tour_part import IdentityTour, run_identity_tour
from firstlight.questions.first_layer.tour_part import FirstLayerTour, run_first_layer_tour
from firstlight.questions.inspect.measure import N_SHOWN
from firstlight.questions.inspect.newer_papers import FeatureReport, feature_report
from firstlight.questions.kernel.measure import LearnedKernel, learn_kernel
from firstlight.questions.order.tour_part import OrderTour, order_from_training
from firstlight.questions.regime.measure import RegimeResult, regime
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


N_GRADIENTS = 128  # images at which gradients are taken


@dataclass(frozen=True, kw_only=True)
class AnsatzTour(Result):
    """What feature matrices and gradients of a network have in common.

    Parameters
    ----------
    ansatz : Ansatz
        Correlations of every layer, trained and initial, with their nulls.
    eigenvectors : tuple of Eigenvectors
        Leading ones of the first convolution.
    maps : tuple of LayerMaps
        What the convolutions look at in `shown`.
    shown : Tensor of shape (n, c, h, w)
        A few images.
    later : FeatureReport, optional
        What later papers add: the ansatz of what training changed, exponents, class variation and richness.
    """

    ansatz: Ansatz
    eigenvectors: tuple[Eigenvectors, ...]
    maps: tuple[LayerMaps, ...]
    shown: Images
    later: FeatureReport | None = None


def run_ansatz_tour(model: nn.Module, initial: nn.Module, data: ImageData, *, seed: int = 0) -> AnsatzTour:
    """Compare a convolutional network with itself before training, on images it has not seen.

    Parameters
    ----------
    model, initial : torch.nn.Module
        After and before training.
    data : ImageData
        Unseen images; 128 of them are used. A few seconds for a small network.
    seed : int, default 0
        Of the choice of images and of the nulls.
    """
    sample = data.sample(min(N_GRADIENTS, len(data)), seed=seed)
    images = sample.x
    trained, before = (
        patch_gradients(one, images, seed=seed, label=label)
        for one, label in ((model, "Gradients of the network"), (initial, "Gradients before training"))
    )
    pictures = [layer for layer in trained.layers if len(layer.shape) == 3]
    return AnsatzTour(
        ansatz=ansatz_from(trained, before, seed=seed),
        eigenvectors=tuple(top_eigenvectors(pictures[0], kind=kind) for kind in ("features", "gradients")),
        maps=layer_maps(model, pictures, images[:N_SHOWN]),
        shown=images[:N_SHOWN],
        later=feature_report(model, sample, initial=initial, gradients=trained, seed=seed),
    )


N_PATCHES = 2000  # images whose patches give the components
N_KERNEL = 16  # images of the tangent kernels


@dataclass(frozen=True)
class Part:
    """One part of a tour.

    Parameters
    ----------
    name : str
        Key of its result in :attr:`firstlight.questions.tour.run.Tour.parts`.
    words : str
        What it is called on the page while it is still to come.
    run : callable
        Measures it. The type of the result decides how the page shows it, see
        :data:`firstlight.questions.tour.page.PAGES`.
    needs_own_images : bool, default False
        Whether it makes no sense on other images than those the network was trained on.
    """

    name: str
    words: str
    run: Callable[[Subject], Result]
    needs_own_images: bool = False


def _order(subject: Subject) -> OrderTour:
    histories = [one.history for one in subject.networks if one.history is not None]
    names = ", ".join(one.name for one in subject.networks)
    return order_from_training(histories, subject.pixels[0], recipe=f"Networks: {names}", seed=subject.seed)


def _identity(subject: Subject) -> IdentityTour:
    return run_identity_tour(depths=(1, 5) if subject.is_quick else (1, 3, 5, 10, 20))


def _first_layer(subject: Subject) -> FirstLayerTour:
    return run_first_layer_tour(
        {one.name: (one.model, one.initial) for one in subject.networks},
        film_of(subject.networks[0]),
        subject.sample(N_PATCHES),
        controls={words: one.model for words, one in subject.controls.items()},
        seed=subject.seed,
    )


def _ansatz(subject: Subject) -> AnsatzTour:
    first = subject.networks[0]
    return run_ansatz_tour(first.model, first.initial, subject.sample(500, split="test"), seed=subject.seed)


def _regime(subject: Subject) -> RegimeResult:
    first = subject.networks[0]
    return regime(
        first.model, subject.sample(500), initial=first.initial, test=subject.sample(500, split="test"),
        n_kernel=N_KERNEL, n_fit=0, seed=subject.seed,
    )  # fmt: skip


def _kernel(subject: Subject) -> LearnedKernel:
    n, depth = (60, 1) if subject.is_quick else (300, 2)
    machine = ConvRFMClassifier(depth=depth, rounds=2, patience=None, random_state=subject.seed)
    train, test = (
        pixels.sample(min(count, len(pixels)), seed=subject.seed)
        for pixels, count in zip(subject.pixels, (n, 500), strict=True)
    )
    return learn_kernel(train, test, load("photos", split="test", n=6, seed=subject.seed).x, machine=machine)


# In the order in which they are measured and shown: a page that grows, grows at its end. What a newcomer should see
# first comes first.
PARTS = (
    Part("network", "the network", run_network_tour),
    Part("order", "the order of learning", _order, needs_own_images=True),
    Part("identity", "copy or memorise", _identity),
    Part("first_layer", "the first layer", _first_layer),
    Part("ansatz", "filters and gradients", _ansatz),
    Part("regime", "lazy or learning", _regime),
    Part("kernel", "a kernel that learns features", _kernel),
)
"""Parts of a tour, in the order in which they are measured and shown."""
