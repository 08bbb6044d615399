"""At which width would the linearisation of an architecture catch up with the network?"""

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.progress import Plan, planned
from firstlight._internal.result import Result
from firstlight.data.conversion import ImagesLike, as_images
from firstlight.data.images import ImageData
from firstlight.maths.correlation import Interval, share_interval
from firstlight.measures.linearized.exact_solution import solve_linearized
from firstlight.training.loop import predictions, train_on
from firstlight.training.recipe import Recipe

WIDTHS = (1, 2, 4)
N_FIT = 300  # images: the solve takes the cube of images times classes
N_TEST = 1000
RECIPE = Recipe(lr=0.05, batch_size=32, steps=2000)  # however few the images: enough to fit them
FITTED = 0.9  # of its own images; a network that fits fewer has not been trained to its end
LINEAR, TRAINING = "linearisation at width {:g}", "training at width {:g}"
SOLVE = 1.4e-10  # seconds that a decomposition takes for each of rows cubed: half a minute for 6,000
NORMAL = 1.96  # 97.5 % point: a paired difference over hundreds of images is nearly normal


@dataclass(frozen=True, kw_only=True)
class WidthGap(Result):
    """A network of one width beside its linearisation, both fitted to the same images.

    Parameters
    ----------
    width : float
        In multiples of the architecture as it is.
    n_weights : int
        Of the network.
    fitted : float
        Share of the images that it was trained on that the network classifies correctly.
    accuracy, linear_accuracy : float
        Share of unseen images that the trained network and the linearisation at its initial weights classify correctly.
    gap : Interval
        The difference, with its interval over the unseen images, which both were shown.
    seconds : float
        What this width took.
    """

    width: float
    n_weights: int
    fitted: float
    accuracy: float
    linear_accuracy: float
    gap: Interval
    seconds: float

    @property
    def has_caught_up(self) -> bool:
        """Whether these images do not tell the linearisation from the network, or it is better."""
        return self.gap.low <= 0


@dataclass(frozen=True, kw_only=True)
class WidthScan(Result):
    """Networks of several widths beside their linearisations.

    Parameters
    ----------
    rows : tuple of WidthGap
        By increasing width.
    n_fit, n_test : int
        Images that networks and linearisations were fitted to, and unseen ones.
    chance : float
        Share of the largest class among the unseen images.
    """

    rows: tuple[WidthGap, ...]
    n_fit: int
    n_test: int
    chance: float

    @property
    def catches_up_at(self) -> float:
        """The smallest width from which on the linearisation keeps up; NaN if none of those measured does."""
        late = [row for row in self.rows if not row.has_caught_up]
        later = [row.width for row in self.rows if not late or row.width > late[-1].width]
        return later[0] if later else math.nan

    def sentence(self) -> str:
        """At which width, or that none does, with the numbers of the width that decides."""
        at = self.catches_up_at
        row = self.rows[-1] if math.isnan(at) else next(row for row in self.rows if row.width == at)
        numbers = (
            f"{row.accuracy:.0%} of {self.n_test:,} unseen images against {row.linear_accuracy:.0%}, a gap of "
            f"{100 * row.gap.value:.0f} points ({100 * row.gap.low:.0f} to {100 * row.gap.high:.0f}), both fitted to "
            f"{self.n_fit:,} images"
        )
        if share_interval(round(row.accuracy * self.n_test), self.n_test).low <= self.chance:
            return (
                f"Whether the linearisation catches up cannot be told: the network is at chance ({numbers})."
            )
        if row.fitted < FITTED:
            return (
                "Whether the linearisation catches up cannot be told: the network classifies only "
                f"{row.fitted:.0%} of the images correctly that it was trained on ({numbers})."
            )
        if math.isnan(at):
            return f"No network of up to {row.width:g} times the width is matched by its linearisation ({numbers})."
        if at == self.rows[0].width:
            return f"The linearisation keeps up at every width measured ({numbers})."
        return f"The linearisation catches up at {at:g} times the width ({numbers})."


def linear_catch_up(
    build: Callable[[float, int], nn.Module],
    data: ImagesLike,
    *,
    test: ImagesLike | None = None,
    widths: Sequence[float] = WIDTHS,
    n_fit: int = N_FIT,
    recipe: Recipe | None = None,
    seed: int = 0,
    show: bool | None = None,
) -> WidthScan:
    """Train an architecture at several widths and solve its linearisation exactly, on the same images.

    Parameters
    ----------
    build : callable
        Given a width, in multiples of the architecture as it is, and a seed; returns the untrained network.
    data : ImageData, Dataset, DataLoader, folder and others
        Labelled images.
    test : ImageData, Dataset, DataLoader, folder and others, optional
        Unseen images, of which 1,000 are used; by default those of `data` that nothing was fitted to.
    widths : sequence of float, default (1, 2, 4)
        Widths to measure.
    n_fit : int, default 300
        Number of images that are fitted to.
    recipe : Recipe, optional
        How the networks are trained; by default 2,000 steps of gradient descent.
    seed : int, default 0
        Seed for the choice of images and the initial weights.
    show : bool, optional
        Force the forecast on or off. It is corrected while the widths are measured.

    Examples
    --------
    >>> from firstlight import build, load
    >>> scan = linear_catch_up(
    ...     lambda width, seed: build("lenet", classes=8, width=width, seed=seed), load("photos"), widths=[1], n_fit=24
    ... )
    >>> scan.rows[0].width
    1
    """
    chosen, held = _images(as_images(data), None if test is None else as_images(test), n_fit, seed)
    widths = sorted(widths)
    if not widths or widths[0] <= 0:
        raise InvalidInput(f"`widths` must hold positive numbers; got {list(widths)}.")
    recipe = recipe or RECIPE
    with planned(show=show) as plan:
        plan.expect(_seconds(build(widths[0], seed), widths, chosen, recipe))
        rows = []
        for width in widths:
            rows.append(_measured(plan, build, width, chosen, held, recipe, seed))
    chance = float(held.counts.max()) / len(held)
    return WidthScan(rows=tuple(rows), n_fit=len(chosen), n_test=len(held), chance=chance)


def _images(data: ImageData, test: ImageData | None, n_fit: int, seed: int) -> tuple[ImageData, ImageData]:
    if not data.is_labelled or (test is not None and not test.is_labelled):
        raise InvalidInput("`data` and `test` must have labels.")
    n = min(n_fit, len(data) if test is not None else len(data) // 2)
    if n < 2:
        raise InvalidInput(f"`data` and `n_fit` must give at least 2 images to fit to; got {n}.")
    order = data.sample(len(data), seed=seed)
    held = test if test is not None else order.take(torch.arange(n, len(order)))
    return order.take(torch.arange(n)), held.sample(min(N_TEST, len(held)), seed=seed)


def _seconds(
    network: nn.Module, widths: Sequence[float], data: ImageData, recipe: Recipe
) -> dict[str, float]:
    """Seconds that the steps of each width should take, from a pass of the narrowest; products grow with its square."""
    some = data.x[: min(len(data), 32)].to(next(network.parameters()))
    with torch.no_grad():
        network(some[:1])  # the first pass also allocates
        image = min(_timed(lambda: network(some)) for _ in range(3)) / len(some)
    training = 3 * image * (recipe.batch_size or len(data)) * recipe.total_steps(len(data))
    # a backward pass for every output of every image, in double precision, and the decomposition of their Gram matrix
    rows = len(data) * data.n_classes
    passes, solving = 6 * image * rows, SOLVE * rows**3
    steps: dict[str, float] = {}
    for width in widths:  # two steps, as each has a bar of its own that tells how far it is
        times = (width / widths[0]) ** 2
        steps[LINEAR.format(width)] = solving + passes * times
        steps[TRAINING.format(width)] = training * times
    return steps


def _timed(act: Callable[[], object]) -> float:
    begun = time.perf_counter()
    act()
    return time.perf_counter() - begun


def _measured(
    plan: Plan,
    build: Callable[[float, int], nn.Module],
    width: float,
    data: ImageData,
    held: ImageData,
    recipe: Recipe,
    seed: int,
) -> WidthGap:
    begun = time.perf_counter()
    network = build(width, seed)
    targets = torch.nn.functional.one_hot(data.y, data.n_classes).double()
    plan.begin(LINEAR.format(width))
    line = solve_linearized(network, data.x, targets, show=False).solution()
    plan.begin(TRAINING.format(width))
    train_on(network, data, recipe, show=False)
    right, linear = (_right(model, held) for model in (network, line))
    paired = (right - linear).double()  # the same images: what both get wrong drops out
    half = NORMAL * float(paired.std()) / math.sqrt(len(paired))
    value = float(paired.mean())
    return WidthGap(
        width=width,
        n_weights=sum(p.numel() for p in network.parameters()),
        fitted=float(_right(network, data).mean()),
        accuracy=float(right.mean()),
        linear_accuracy=float(linear.mean()),
        gap=Interval(value=value, low=value - half, high=value + half, level=0.95),
        seconds=time.perf_counter() - begun,
    )


def _right(model: nn.Module, held: ImageData) -> torch.Tensor:
    x = held.x.to(next(model.parameters()).dtype)
    with torch.no_grad():
        said = predictions(model, x, batch_size=64, of=lambda out: out.argmax(1))
    return (said.cpu() == held.y).double()
