"""The parts of a tour: here, and only here, a part is named, put in its place and given its runner."""

from collections.abc import Callable
from dataclasses import dataclass

from firstlight._internal.result import Result
from firstlight.data.catalogue import load
from firstlight.estimators.convrfm import ConvRFMClassifier
from firstlight.questions.copy_or_memorise.tour_part import IdentityTour, run_identity_tour
from firstlight.questions.first_layer.tour_part import FirstLayerTour, run_first_layer_tour
from firstlight.questions.kernel.measure import LearnedKernel, learn_kernel
from firstlight.questions.order.tour_part import OrderTour, run_order_tour
from firstlight.questions.regime.measure import RegimeResult, regime
from firstlight.questions.tour.ansatz import AnsatzTour, run_ansatz_tour
from firstlight.questions.tour.images import run_images_tour
from firstlight.questions.tour.shared_trainings import Stage
from firstlight.questions.tour.training import run_training_tour


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
    """

    name: str
    words: str
    run: Callable[[Stage], Result]


def _first_layer(stage: Stage) -> FirstLayerTour:
    return run_first_layer_tour(stage.spec, stage.nets, stage.models, stage.train, seed=stage.seed)


def _ansatz(stage: Stage) -> AnsatzTour:
    return run_ansatz_tour(stage.models[0], stage.spec(stage.nets[0].seed), stage.test, seed=stage.seed)


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


# In the order in which they are measured and shown: a page that grows, grows at its end.
PARTS = (
    Part("images", "the images", run_images_tour),
    Part("first_layer", "the first layer", _first_layer),
    Part("order", "the order of learning", _order),
    Part("ansatz", "filters and gradients", _ansatz),
    Part("regime", "lazy or learning", _regime),
    Part("kernel", "a kernel that learns features", _kernel),
    Part("identity", "copy or memorise", _identity),
    Part("training", "accuracy", run_training_tour),
)
"""Parts of a tour, in the order in which they are measured and shown."""
