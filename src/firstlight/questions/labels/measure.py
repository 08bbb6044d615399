"""Which labels look wrong: cross-checked by networks that did not see them, and by the order of learning."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from firstlight._internal.devices import DeviceLike, on_given_device
from firstlight._internal.seeds import generator_from
from firstlight._internal.shapes import Labels
from firstlight.data.conversion import ImagesLike
from firstlight.data.images import ImageData
from firstlight.maths.correlation import roc_area, share_interval
from firstlight.questions.labels.networks import PartView, plan_networks, view_all
from firstlight.questions.labels.result import (
    LabelCheck,
    PlantedErrors,
    demand_settings,
    joined_check,
    labelled_images,
    scaled_ranks,
)

GROUPS = 2  # an image whose label we change in one group keeps it in the other
FOLDS = 2
PLANTED_SHARE = 0.02  # in each group
FIRST_SHARE = 0.05


@on_given_device
def check_labels(
    data: ImagesLike,
    model: str | Callable[[], nn.Module] | None = None,
    *,
    budget: float | None = None,
    epochs: int | None = None,
    top: int = 60,
    seed: int = 0,
    n_jobs: int | None = None,
    show: bool | None = None,
    device: DeviceLike | None = None,
) -> LabelCheck:
    """Find labels that look wrong.

    Two pairs of networks are trained; each network sees one half of the images and is asked about all after
    every epoch of the second half of its training. The suspicion of a label is the mean of three ranks, scaled
    to [0, 1]:

    - how rarely the networks gave it (learned late, or never);
    - how little probability it got from the networks that did not train on the image;
    - how few of the nearest images in the networks' last layers share it.

    Before training, 2 % of the labels are changed at random for each pair of networks, other ones for each;
    how many of these are found says what the list is worth. An image is judged by the networks for which its
    label was not changed.

    Parameters
    ----------
    data : ImageData, array, Dataset, str, Path or others
        Whatever :func:`firstlight.data.as_images` accepts; or the path of a CSV with columns file and label.
    model : str or callable, optional
        Name of an architecture, ``"module:function"``, or code that builds a network with one output per
        class; by default a small convolutional network, on images averaged down to 32 to 63 pixels.
    budget : float, optional
        Seconds that training may take; there are fewer epochs if it is short.
    epochs : int, optional
        Epochs of every network; by default 3 to 24, fewer for more images.
    top : int, default 60
        Largest number of suspects.
    seed : int, default 0
        Seed for all random choices.
    n_jobs : int, optional
        Number of processes; by default one per core.
    show : bool, optional
        Force the progress bar on or off.
    device : str or torch.device, optional
        Where to compute: "auto", "cpu", "cuda" or "mps"; by default as ``firstlight.computing_on`` says, else
        on the CPU.

    Returns
    -------
    LabelCheck
        Without suspects if the networks did not learn more than the largest class.

    Examples
    --------
    >>> from firstlight import load
    >>> photos = load("photos", n=80)
    >>> check = check_labels(photos, epochs=1, top=5, n_jobs=1, show=False)
    >>> check.suspicion.shape, check.planted.n  # errors planted to see how many are found
    (torch.Size([80]), 10)
    """
    start = time.perf_counter()
    images = labelled_images(data)
    demand_settings(budget=budget, epochs=epochs, top=top)
    networks, prepared = plan_networks(
        images, model, epochs=epochs, budget=budget, n_networks=GROUPS * FOLDS, seed=seed
    )
    label_sets, planted = _planted(images, seed=seed)
    groups = view_all(networks, prepared, label_sets, folds=FOLDS, n_jobs=n_jobs, show=show)
    by_group = torch.stack([_suspicion(v, y) for v, y in zip(groups, label_sets, strict=True)])
    views = [view for group in groups for view in group]
    answers = _combined(groups, images.y, planted)
    likely_confidence, likely = answers.held_out.max(1)
    recipe = (
        f"{len(views)} networks ({networks.name}), each on one half of the images, {networks.epochs} epochs, "
        f"images of {prepared.shape[1]} x {prepared.shape[2]}"
    )
    return joined_check(
        images,
        top=top,
        likely=likely,
        suspicion=_mean_where(by_group, ~planted),
        accessibility=answers.accessibility,
        confidence=answers.held_out.gather(1, images.y[:, None])[:, 0],
        likely_confidence=likely_confidence,
        neighbours=answers.neighbours,
        accuracy=share_interval(int((likely == images.y).sum()), len(images)),
        planted=_measured(by_group, planted),
        recipe=recipe,
        seconds=time.perf_counter() - start,
    )


def _planted(data: ImageData, *, seed: int) -> tuple[Int[Tensor, "groups n"], Bool[Tensor, "groups n"]]:
    """Labels for each group of networks, some changed to another class that occurs."""
    n = len(data)
    count = min(max(5, round(PLANTED_SHARE * n)), n // 10, 500)
    generator = generator_from("planted errors", seed)
    order = torch.randperm(n, generator=generator)
    present = data.counts.nonzero().flatten()
    rank = torch.empty(data.n_classes, dtype=torch.int64)
    rank[present] = torch.arange(len(present))
    label_sets, planted = data.y.repeat(GROUPS, 1), torch.zeros(GROUPS, n, dtype=torch.bool)
    for group in range(GROUPS):
        chosen = order[group * count : (group + 1) * count]
        step = torch.randint(1, len(present), (count,), generator=generator)
        label_sets[group, chosen] = present[(rank[data.y[chosen]] + step) % len(present)]
        planted[group, chosen] = True
    return label_sets, planted


@dataclass(frozen=True)
class _Answers:
    accessibility: Tensor
    held_out: Tensor  # probabilities by networks that did not train on the image
    neighbours: Tensor  # share with the same label


def _suspicion(views: list[PartView], labels: Labels) -> Float[Tensor, " n"]:
    """Mean rank of lateness, lack of held-out probability and strange neighbours, for one set of labels."""
    answers = _answers(views, labels)
    signals = [-answers.accessibility, -answers.held_out.gather(1, labels[:, None])[:, 0]]
    if answers.neighbours.isfinite().all():
        signals.append(-answers.neighbours)
    return torch.stack([scaled_ranks(signal) for signal in signals]).mean(0)


def _answers(views: list[PartView], labels: Labels) -> _Answers:
    held = torch.stack([view.held_out for view in views])
    probabilities = torch.stack([view.probabilities for view in views]).double()
    near = torch.full((len(labels),), math.nan, dtype=torch.float64)
    if all(view.neighbours is not None for view in views):
        shares = torch.stack([view.neighbours for view in views if view.neighbours is not None]).mean(0)
        near = shares.double().gather(1, labels[:, None])[:, 0]
    return _Answers(
        accessibility=torch.stack([view.accessibility for view in views]).mean(0),
        held_out=(probabilities * held[..., None]).sum(0) / held.sum(0)[:, None],
        neighbours=near,
    )


def _combined(groups: list[list[PartView]], labels: Labels, planted: Bool[Tensor, "groups n"]) -> _Answers:
    """What is said about the labels as given, by the groups in which they were not changed."""
    answers = [_answers(views, labels) for views in groups]
    return _Answers(
        accessibility=_mean_where(torch.stack([a.accessibility for a in answers]), ~planted),
        held_out=_mean_where(torch.stack([a.held_out for a in answers]), ~planted),
        neighbours=_mean_where(torch.stack([a.neighbours for a in answers]), ~planted),
    )


def _mean_where(
    values: Float[Tensor, "groups n *k"], kept: Bool[Tensor, "groups n"]
) -> Float[Tensor, "n *k"]:
    weight = kept.double().reshape(*kept.shape, *[1] * (values.ndim - 2))
    return (values * weight).sum(0) / weight.sum(0)


def _measured(by_group: Float[Tensor, "groups n"], planted: Bool[Tensor, "groups n"]) -> PlantedErrors:
    """How the changed labels rank among the others, pooled over the groups."""
    first = max(1, round(FIRST_SHARE * by_group.shape[1]))
    found = sum(
        int(wrong[suspicion.argsort(descending=True, stable=True)[:first]].sum())
        for suspicion, wrong in zip(by_group, planted, strict=True)
    )
    areas = [roc_area(s, w) for s, w in zip(by_group, planted, strict=True)]
    return PlantedErrors(
        n=int(planted.sum()),
        found=share_interval(found, int(planted.sum())),
        chance=first / by_group.shape[1],
        separation=sum(areas) / len(areas),
        most_wrong=_most_wrong(by_group[planted], by_group[~planted]),
    )


def _most_wrong(wrong: Float[Tensor, " w"], others: Float[Tensor, " m"]) -> float:
    """Largest share of wrong labels among the others that their suspicion allows.

    If a share p of them looked like the wrong ones, at least p times the share of wrong ones above any
    threshold would lie above it. The share of wrong ones is taken at the lower end of its range and that of
    the others at the upper, for the smallest of many ratios errs downwards.
    """
    bounds = [1.0]
    for threshold in sorted(set(wrong.tolist())):
        lowest = share_interval(int((wrong >= threshold).sum()), len(wrong)).low
        highest = share_interval(int((others >= threshold).sum()), len(others)).high
        if lowest > 0:
            bounds.append(highest / lowest)
    return min(bounds)
