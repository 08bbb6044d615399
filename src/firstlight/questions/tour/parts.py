"""The parts of a tour: here, and only here, a part is named, put in its place and given its runner."""

from collections.abc import Callable
from dataclasses import dataclass

from firstlight._internal.result import Result
from firstlight.data.catalogue import load
from firstlight.estimators.convrfm import ConvRFMClassifier
from firstlight.questions.copy_or_memorise.tour_part import IdentityTour, run_identity_tour
from firstlight.questions.first_layer.tour_part import FirstLayerTour, run_first_layer_tour
from firstlight.questions.kernel.measure import LearnedKernel, learn_kernel
from firstlight.questions.order.tour_part import OrderTour, order_from_training
from firstlight.questions.regime.measure import RegimeResult, regime
from firstlight.questions.tour.ansatz import AnsatzTour, run_ansatz_tour
from firstlight.questions.tour.network import run_network_tour
from firstlight.questions.tour.subject import Subject, film_of

N_PATCHES = 2000  # images whose patches give the components
N_KERNEL = 16  # images of the tangent kernels


@dataclass(frozen=True)
class Part:
    """One part of a tour.

    Parameters
    ----------
    name : str
        Key of its result in :attr:`firstlight.questions.tour.Tour.parts`.
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
