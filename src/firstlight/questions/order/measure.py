"""What the order of learning tells about the examples: early, late, and probably mislabelled ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F
from torch.utils.data import DataLoader, RandomSampler

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.table import Row, rows_along
from firstlight.data.conversion import ImagesLike, as_images
from firstlight.data.images import ImageData, ShownImages, shown_images
from firstlight.maths.correlation import ranks
from firstlight.maths.pca import image_pca
from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from firstlight.measures.learning_order.constancy import (
    Constancy,
    OrderCorrelation,
    learning_order_constancy,
    order_correlation,
)
from firstlight.measures.learning_order.critical_component import critical_component
from firstlight.measures.learning_order.discriminability import discriminabilities, discriminability
from firstlight.questions.order.prediction import Hardness, OrderSkill, hardness, mean_margin, order_skill

Features = Tensor | Sequence[Tensor] | None  # a matrix of image x feature, or one for every network


@dataclass(frozen=True, kw_only=True)
class OrderReport(Result):
    """Earliest and latest images, likely label errors, and what predicts the order.

    Parameters
    ----------
    scores : Tensor of shape (n,)
        Accessibility of every example over all networks.
    accuracy : Tensor of shape (nets, epochs)
        Training accuracy of every network after every epoch.
    constancy : Constancy or None
        Agreement of two ensembles, with the fastest share chosen by a third; None if there are too few
        networks to tell.
    earliest, latest : ShownImages
        Images learned first and last.
    suspicion : Tensor of shape (n,)
        Of a wrong label, in [0, 1], see :func:`label_suspicion`.
    suspects : ShownImages
        The most suspicious images, with the label they carry.
    correlations : dict of str to OrderCorrelation
        Accessibility against every score that needs no training of a network; "contrast" is there as a
        control: a score that knows nothing of the classes.
    skill : OrderSkill or None
        How well the order agrees with what :func:`firstlight.questions.order.prediction.predicted_lateness` says
        before training; None if either does not vary.
    hardness : Hardness or None
        How far the classes lie apart before training; None of images of one class.
    """

    scores: Float[Tensor, " n"]
    accuracy: Float[Tensor, "nets epochs"]
    constancy: Constancy | None
    earliest: ShownImages
    latest: ShownImages
    suspicion: Float[Tensor, " n"]
    suspects: ShownImages
    correlations: dict[str, OrderCorrelation]
    skill: OrderSkill | None = None
    hardness: Hardness | None = None

    def _rows(self) -> list[Row]:
        return rows_along(self, "n")

    @property
    def best_predictor(self) -> str:
        """The cheap score with the strongest correlation with the order, example by example."""
        return max(self.correlations, key=lambda name: abs(self.correlations[name].pointwise.value))


def learning_order(
    history: AccessibilityHistory | Sequence[AccessibilityHistory],
    data: ImagesLike,
    *,
    features: Features = None,
    n_shown: int = 24,
    k: int = 10,
    ridge: float = 0.1,
    seed: int = 0,
) -> OrderReport:
    """Explain the order in which the examples of `data` were learned.

    Parameters
    ----------
    history : AccessibilityHistory or sequence of AccessibilityHistory
        Record of one ensemble, which is cut in three if it is large enough, or of several.
    data : ImageData, Dataset, DataLoader, folder and others
        The examples that were followed, in their order, with the labels that were trained on; in any form that
        :func:`firstlight.data.as_images` takes.
    features : Features, optional
        Features of one trained network or of each, such as
        :func:`~firstlight.measures.learning_order.discriminability.penultimate_features`. They add the
        discriminability in that layer of the first network, and more of the wrong labels are found.
    n_shown : int, default 24
        Number of images of each kind.
    k : int, default 10
        Number of neighbours that the discriminability looks at.
    ridge : float, default 0.1
        Ridge of the linear classifier behind the critical component.
    seed : int, default 0
        Seed of the resampling.

    Examples
    --------
    >>> from firstlight import build, load
    >>> from firstlight.measures.learning_order.accessibility import AccessibilityRecorder
    >>> photos, network = load("photos", n=24), build("small", classes=8, width=0.25)
    >>> recorder = AccessibilityRecorder(photos.x, photos.y)
    >>> for _epoch in range(2):
    ...     recorder.record(network)  # in a training: once per epoch
    >>> report = learning_order(recorder.history(), photos, n_shown=3)
    >>> report.scores.shape, report.earliest.index.shape
    (torch.Size([24]), torch.Size([3]))
    """
    if isinstance(data, DataLoader) and isinstance(data.sampler, RandomSampler):
        raise InvalidInput(
            "`data` must come in the order of `history`; this DataLoader shuffles. Pass its `dataset`."
        )
    ensembles, data = _ensembles(history), as_images(data)
    if not data.is_labelled:
        raise InvalidInput("`data` must have labels: the order says which of them look wrong; it has none.")
    if any(e.n_examples != len(data) for e in ensembles):
        raise InvalidInput(
            f"`history` must follow the {len(data)} examples of `data`; it follows {ensembles[0].n_examples}."
        )
    if not 1 <= n_shown <= len(data):
        raise InvalidInput(f"`n_shown` must lie in 1 .. {len(data)}; got n_shown={n_shown}.")
    parts = [ensemble.scores for ensemble in ensembles]
    networks = torch.cat([ensemble.by_network for ensemble in ensembles])
    scores = networks.mean(0)
    suspicion = label_suspicion(parts, data, features=features)
    return OrderReport(
        scores=scores,
        accuracy=torch.cat([e.up_to(min(h.n_epochs for h in ensembles)).accuracy for e in ensembles]),
        constancy=_constancy(ensembles, seed=seed),
        earliest=shown_images(scores.argsort(descending=True, stable=True)[:n_shown], data),
        latest=shown_images(scores.argsort(stable=True)[:n_shown], data),
        suspicion=suspicion,
        suspects=shown_images(suspicion.argsort(descending=True, stable=True)[:n_shown], data),
        correlations=_correlations(scores, data, features, k=k, ridge=ridge, seed=seed),
        skill=order_skill(scores, data, k=k, ridge=ridge, seed=seed) if len(data) > 3 else None,
        hardness=hardness(data, k=k, seed=seed) if int((data.counts > 0).sum()) > 1 else None,
    )


def label_suspicion(
    scores: Sequence[Float[Tensor, " n"]],
    data: ImageData,
    *,
    features: Features = None,
    k: int = 50,
    weight: float | None = None,
) -> Float[Tensor, " n"]:
    r"""How likely a label is wrong: learned late by all ensembles, and near another class.

    .. math:: (1 - w)\, \mathrm{rank}\big(1 - \max_e \mathrm{acc}_e\big) + w\, \mathrm{rank}(1 - \mathrm{disc}_k)

    with ranks scaled to [0, 1]. Late alone also marks what is merely hard; the neighbours tell them apart.

    Parameters
    ----------
    scores : sequence of Tensor of shape (n,)
        Accessibility in each ensemble, in the labels as given.
    data : ImageData
        The examples with those labels.
    features : Features, optional
        Of one trained network or of each, to find neighbours in, by the angles in all of them; without
        any, pixels, which know less.
    k : int, default 50
        Neighbours; many, since a wrong label is a matter of the neighbourhood.
    weight : float, optional
        W of the neighbours; by default 0.25 in features and 0.1 in pixels, where 0.25 found fewer of the
        errors planted in cats and dogs than lateness alone.
    """
    spaces = _per_network(features, len(data))
    late = 1 - torch.stack(list(scores)).max(0).values
    place = torch.cat([F.normalize(space, dim=1) for space in spaces], 1) if spaces else data.x
    near = 1 - discriminability(place, data.y, k=min(k, max(1, len(data) // 4)))
    w = weight if weight is not None else 0.25 if spaces else 0.1
    count = max(len(data) - 1, 1)
    return ((1 - w) * (ranks(late) - 1) + w * (ranks(near) - 1)) / count


def _per_network(features: Features, n: int) -> list[Tensor]:
    per_network = [features] if isinstance(features, Tensor) else list(features or ())
    for one in per_network:
        if one.ndim != 2 or len(one) != n:
            raise InvalidInput(
                f"`features` must have one row for each of the {n} images; got {tuple(one.shape)}."
            )
    return per_network


def _ensembles(
    history: AccessibilityHistory | Sequence[AccessibilityHistory],
) -> list[AccessibilityHistory]:
    if not isinstance(history, AccessibilityHistory):
        if not history:
            raise InvalidInput("`history` must hold at least one ensemble; got none.")
        return list(history)
    parts = min(3, history.n_networks)
    edges = [history.n_networks * i // parts for i in range(parts + 1)]
    return [history.networks(slice(a, b)) for a, b in pairwise(edges)]


def _constancy(ensembles: list[AccessibilityHistory], *, seed: int) -> Constancy | None:
    if len(ensembles) < 2 or any(_is_flat(e.scores) for e in ensembles):
        return None
    third = ensembles[2] if len(ensembles) > 2 else None
    return learning_order_constancy(ensembles[0], ensembles[1], third=third, seed=seed)


def _correlations(
    scores: Tensor, data: ImageData, features: Features, *, k: int, ridge: float, seed: int
) -> dict[str, OrderCorrelation]:
    critical = critical_component(data, ridge=ridge, pca=image_pca(data.x))
    near = discriminabilities(data.x, data.y, ks=(min(k, len(data) - 1),))[0]
    predictors = {
        "critical component": (scores[critical.defined], critical.critical[critical.defined].double()),
        "discriminability in pixels": (scores, near),
        "nearer to the own class mean": (scores, mean_margin(data)),
        "contrast (control)": (scores, data.x.flatten(1).double().std(1)),
    }
    if spaces := _per_network(features, len(data)):
        layer = discriminability(spaces[0], data.y, k=min(k, len(data) - 1))
        predictors["discriminability in the last layer"] = (scores, layer)
    return {
        name: order_correlation(a, b, seed=seed)
        for name, (a, b) in predictors.items()
        if len(a) > 3 and not _is_flat(a) and not _is_flat(b)
    }


def _is_flat(values: Tensor) -> bool:
    return bool((values == values[0]).all())
