"""What can be said before any training: which images will be learned late, and how hard the data set is."""

import json
from dataclasses import dataclass
from importlib import resources

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.conversion import ImagesLike, as_images
from firstlight.data.images import ImageData, even_sample
from firstlight.maths.correlation import Interval, bootstrap_interval, ranks
from firstlight.maths.pca import image_pca
from firstlight.measures.learning_order.critical_component import critical_component
from firstlight.measures.learning_order.discriminability import discriminability

NEIGHBOURS = 10
RIDGE = 0.1
N_HARDNESS = 2000  # images: with fewer, neighbours are farther and every data set looks harder
DRAWS = 400


@dataclass(frozen=True, kw_only=True)
class Hardness(Result):
    r"""How far the classes of a data set lie apart in pixels, before any training.

    Parameters
    ----------
    name : str
        Of the data set.
    value : Interval
        Share of the ten nearest neighbours that belong to another class, divided by what random neighbours give: 0 if
        neighbours share their class, 1 if pixels tell nothing; the interval is over images.
    n_images, n_classes : int
        Behind it.
    """

    name: str
    value: Interval
    n_images: int
    n_classes: int


@dataclass(frozen=True, kw_only=True)
class OrderSkill(Result):
    """How well the order that is predicted before training agrees with the one that was measured.

    Parameters
    ----------
    rank : Interval
        Spearman correlation of the predicted and the measured lateness, with its interval over images.
    chance : float
        Two standard deviations of that correlation for unrelated orders.
    n_images : int
        Behind it. None of them was fitted to: the prediction has no parameters.
    """

    rank: Interval
    chance: float
    n_images: int


def predicted_lateness(data: ImagesLike, *, k: int = NEIGHBOURS, ridge: float = RIDGE) -> Float[Tensor, " n"]:
    r"""Which images will be learned late? From 0, first, to 1, last; nothing is trained and nothing fitted to an order.

    The mean rank of three scores: the share of the nearest neighbours in pixels that belong to another class, how much
    nearer the mean of another class is, and the number of principal components that a linear classifier needs for the
    image; an image that it never classifies correctly counts as last.

    Parameters
    ----------
    data : ImageData, Dataset, DataLoader, folder and others
        Images with labels.
    k : int, default 10
        Number of neighbours.
    ridge : float, default 0.1
        Ridge of the linear classifier.

    Examples
    --------
    >>> from firstlight import load
    >>> predicted_lateness(load("photos", n=24)).shape
    torch.Size([24])
    """
    data = as_images(data)
    if not data.is_labelled or len(data) < 4:
        raise InvalidInput(f"`data` must hold at least 4 images with labels; got {len(data)}.")
    critical = critical_component(data, ridge=ridge, pca=image_pca(data.x))
    last = float(critical.critical.max()) + 1
    component = torch.where(critical.defined, critical.critical.double(), last)
    strangers = 1 - discriminability(data.x, data.y, k=min(k, len(data) - 1))
    scores = torch.stack([strangers.double(), -mean_margin(data), component])
    return (ranks(scores).mean(0) - 1) / (len(data) - 1)


def order_skill(
    accessibility: Float[Tensor, " n"],
    data: ImageData,
    *,
    k: int = NEIGHBOURS,
    ridge: float = RIDGE,
    seed: int = 0,
) -> OrderSkill | None:
    """Rank correlation of the predicted order with the measured one; None where either does not vary.

    Parameters
    ----------
    accessibility : Tensor of shape (n,)
        What the record of a training gives for each image: high is early.
    data : ImageData
        The images, in the same order.
    k, ridge
        See :func:`predicted_lateness`.
    seed : int, default 0
        Seed of the resampling.
    """
    late = predicted_lateness(data, k=k, ridge=ridge)
    if len(torch.unique(late)) < 2 or len(torch.unique(accessibility)) < 2:
        return None
    rank = bootstrap_interval(ranks(late), ranks(-accessibility.double()), seed=seed, draws=DRAWS)
    return OrderSkill(rank=rank, chance=2 / (len(data) - 1) ** 0.5, n_images=len(data))


def hardness(data: ImagesLike, *, n_images: int = N_HARDNESS, k: int = NEIGHBOURS, seed: int = 0) -> Hardness:
    """How hard a data set is, in one number.

    Parameters
    ----------
    data : ImageData, Dataset, DataLoader, folder and others
        Images with labels of at least two classes.
    n_images : int, default 2000
        Maximum number of images, evenly over the classes. Compare only numbers from equally many.
    k : int, default 10
        Number of neighbours.
    seed : int, default 0
        Seed for the sample and the interval.

    Examples
    --------
    >>> from firstlight import load
    >>> 0 <= hardness(load("photos", n=40)).value.value <= 1.2
    True
    """
    data = as_images(data)
    present = int((data.counts > 0).sum()) if data.is_labelled else 0
    if present < 2:
        raise InvalidInput(f"`data` must hold labelled images of at least 2 classes; got {present}.")
    index = even_sample(data.y, min(n_images, len(data)), n_classes=data.n_classes, seed=seed)
    some = data.take(index)
    strangers = 1 - discriminability(some.x, some.y, k=min(k, len(some) - 1)).double()
    n = len(some)
    # a random neighbour has another class with probability 1 - Σ n_c (n_c - 1) / n (n - 1)
    same = float((some.counts * (some.counts - 1)).sum()) / (n * (n - 1))
    drawn = torch.randint(n, (DRAWS, n), generator=generator_from("hardness", seed))
    low, high = (
        (strangers[drawn].mean(1) / (1 - same)).quantile(torch.tensor([0.025, 0.975]).double()).tolist()
    )
    value = Interval(value=float(strangers.mean()) / (1 - same), low=low, high=high, level=0.95)
    return Hardness(
        name=str(data.meta.get("name", "these images")), value=value, n_images=n, n_classes=present
    )


def known_hardness() -> tuple[Hardness, ...]:
    """Measured values of well-known data sets, from `hardness.json`, which `benchmarks/hardness.py` writes."""
    text = resources.files("firstlight.questions.order").joinpath("hardness.json").read_text(encoding="utf-8")
    return tuple(
        Hardness(
            name=row["name"],
            value=Interval(value=row["value"], low=row["low"], high=row["high"], level=0.95),
            n_images=row["n_images"],
            n_classes=row["n_classes"],
        )
        for row in json.loads(text)["rows"]
    )


def mean_margin(data: ImageData) -> Float[Tensor, " n"]:
    """How much farther the nearest mean of another class is than that of the own."""
    rows = data.x.flatten(1).double()
    own = torch.nn.functional.one_hot(data.y, data.n_classes).double()
    present = own.sum(0) > 0
    means = (own.T @ rows) / own.sum(0).clamp(min=1)[:, None]
    distances = torch.cdist(rows, means)
    distances[:, ~present] = torch.inf
    mine = distances.gather(1, data.y[:, None])[:, 0]
    others = distances.masked_fill(own.bool(), torch.inf).min(1).values
    return torch.where(others.isfinite(), others - mine, 0.0)
