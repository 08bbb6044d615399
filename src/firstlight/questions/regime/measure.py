"""Lazy or learning? Where a training stands between a linear model and a change of features."""

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_state import evaluating, without_autocast
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight._internal.table import Row, cells
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.maths.correlation import Interval
from firstlight.measures.linearized.exact_solution import solve_linearized
from firstlight.measures.linearized.tangent_kernel import ntk_gram
from firstlight.measures.linearized.tangent_kernel_summary import (
    LabelAlignment,
    NtkChange,
    label_alignment,
    ntk_change,
)
from firstlight.measures.linearized.weight_change import LayerChange, layer_changes
from firstlight.models.fresh_weights import fresh_initial
from firstlight.models.kinds import as_network
from firstlight.models.linearized import LinearizedModel, linearize
from firstlight.training.loop import accuracy, predictions

N_KERNEL = 64
N_RANDOM_STEPS, FEWEST_OF_RANDOM = 8, 8  # of their kernels a quarter of the images, but at least 8
STUDENT = 2.365  # 97.5 % point of Student's t with 7 degrees of freedom
SATURATED = 0.99  # of a remainder, which is at most 1
N_FIT_ROWS = 3000  # images times classes that the exact solve is given
MOST_OUTPUTS = 10  # of many outputs so many are looked at
# Calibrated on networks that are lazy or rich by the scale of their outputs (benchmarks/regime_calibration.py): 12
# lazy ones scored 0.01 to 0.19, 12 rich ones 0.53 to 0.72. Bounds from one half misnamed none of the other 12, so the
# error rate is below 22 % at 95 % confidence.
LAZY, LEARNING = 0.2, 0.5


@dataclass(frozen=True, kw_only=True)
class Movement(Result):
    r"""What a displacement of the weights did to the network.

    Parameters
    ----------
    kernel : NtkChange
        How far the tangent kernel rotated and grew.
    remainder : float
        :math:`|f(w) - f_{lin}(w - w_0)| / |f(w) - f(w_0)|` on the images, at most 1: the share of the
        change that the linearisation at the initial weights does not explain.
    """

    kernel: NtkChange
    remainder: float

    @property
    def score(self) -> float:
        """Mean of the kernel's rotation and the remainder."""
        return (self.kernel.rotation + self.remainder) / 2


@dataclass(frozen=True, kw_only=True)
class RegimeResult(Result):
    r"""Where a training stands between lazy (0) and feature learning (1), and on what evidence.

    Parameters
    ----------
    training : Movement
        What the training did.
    random_steps : tuple of Movement
        What steps of the same length in every weight tensor, in random directions, do: the null of movement
        without learning.
    null_range : Interval
        Mean score of the random steps, and the range in which the score of one more would lie in95% of cases,
        on other images too.
    unrelated : NtkChange
        How far the kernel of an independent initialisation is rotated from the initial kernel.
    movement : float
        :math:`\|w - w_0\| / \|w_0\|` over all weights.
    changes : tuple of LayerChange
        The same by layer, with the distance of unrelated weights.
    alignment, initial_alignment : LabelAlignment or None
        Of the kernel with the labels, after and before; None without labels.
    accuracy, chance : float
        Of the network, on images the linear model was not fitted to; NaN without labels, or if left out.
    linear_accuracy : float
        Of the exactly solved linearisation at the initial weights.
    expansion_accuracy : float
        Of the linearisation at the initial weights, moved as the network moved.
    n_kernel, n_outputs, n_fit, n_test : int
        Images and outputs behind these numbers.
    """

    training: Movement
    random_steps: tuple[Movement, ...]
    null_range: Interval
    unrelated: NtkChange
    movement: float
    changes: tuple[LayerChange, ...]
    alignment: LabelAlignment | None
    initial_alignment: LabelAlignment | None
    accuracy: float
    chance: float
    linear_accuracy: float
    expansion_accuracy: float
    n_kernel: int
    n_outputs: int
    n_fit: int
    n_test: int

    def _rows(self) -> list[Row]:
        steps = {"training": self.training}
        steps |= {f"random {i + 1}": step for i, step in enumerate(self.random_steps)}
        return [{"step": name, "score": step.score, **cells(step)} for name, step in steps.items()]

    @property
    def score(self) -> float:
        """From 0, lazy, to 1: mean of the rotation of the kernel and the unexplained share of the change."""
        return self.training.score

    @property
    def null(self) -> float:
        """Mean score of the random steps of the same length."""
        return self.null_range.value

    @property
    def is_saturated(self) -> bool:
        """Whether nothing of the change is linear, neither of training nor of the random steps."""
        return min(step.remainder for step in (self.training, *self.random_steps)) >= SATURATED

    @property
    def gap(self) -> float:
        """Accuracy of the network minus that of the exactly solved linearisation."""
        return self.accuracy - self.linear_accuracy

    @property
    def kind(self) -> str:
        """The score in words, by thresholds that were calibrated on networks of known kind.

        A score that random steps reach too says how far training went, and nothing about what it learned.
        """
        if self.score < LAZY:
            return "lazy"
        if self.score <= self.null_range.high:
            return "cannot tell"
        return "feature learning" if self.score > LEARNING else "between lazy and feature learning"

    def sentence(self) -> str:
        """One sentence with the number, its parts and its null."""
        null = self.null_range
        line = f"{self.score:.2f} on a scale from lazy (0) to feature learning (1)"
        random = f"random steps of the same length give {null.value:.2f} ({null.low:.2f} to {null.high:.2f})"
        parts = (
            f"tangent kernel rotated by {self.training.kernel.rotation:.2f} (1 - cosine) and "
            f"{self.training.remainder:.0%} of the change of its outputs is not linear in the weights"
        )
        if self.is_saturated:
            parts += ", which is saturated: the random steps reach 100% too, so that only the rotation tells"
        if self.kind == "cannot tell":
            return f"Whether training was lazy cannot be told: {line}, but {random}. Its {parts}."
        return f"Training was {self.kind}: {line}; {random}. Its {parts}."


@follows_device
def regime(
    model: nn.Module,
    data: ImagesLike,
    *,
    initial: nn.Module | Mapping[str, Tensor] | None = None,
    test: ImageData | None = None,
    n_kernel: int = N_KERNEL,
    n_fit: int | None = None,
    seed: int = 0,
    show: bool | None = None,
) -> RegimeResult:
    r"""Was the training of this network lazy, or did it learn features?

    .. math:: \mathrm{score} = \tfrac12\Big(1 - \cos(\Theta_0, \Theta)\Big)
              + \tfrac12 \min\Big(1, \frac{|f(w) - f(w_0) - J_0 (w - w_0)|}{|f(w) - f(w_0)|}\Big)

    Both parts are 0 for a network that equals its linearisation, whatever its loss, its labels and its
    optimiser. Movement of the weights and accuracy gap stand beside the number as evidence;
    they are no part of it because they depend on parametrisation and on the number of images.

    Parameters
    ----------
    model, initial : torch.nn.Module or torch.nn.Module, mapping of str to Tensor
        The trained network, and the same network or its state dict before the training. There is no
        answer without it.
    data : Tensor, ImageData, Dataset, DataLoader, folder and others
        Images like those it was trained on, in any form that :func:`firstlight.data.as_images` takes; the
        linearisation is fitted to them if they have labels.
    test : ImageData, optional
        Held-out images; by default those of `data` that the linearisation was not fitted to.
    n_kernel : int, default N_KERNEL
        Number of images of the tangent kernels.
    n_fit : int, optional
        Images for the exact solve, by default 3000 over the number of classes; 0 leaves the accuracies out. The
        network may have seen more: the gap then counts that too.
    seed : int, default 0
        Seed for the choice of images, the random steps and the independent initialisation.
    show : bool, optional
        Force the progress bars on or off.

    Notes
    -----
    Two tangent kernels between `n_kernel` images, of at most 10 outputs, and nine between a quarter of them.
    Batch normalisation of the initial network gets the statistics of these images in place of its placeholders.
    Autocast inside the forward pass is switched off.

    Examples
    --------
    >>> from firstlight import models
    >>> from firstlight.data import load
    >>> network = models.build("lenet", classes=8)
    >>> regime(network, load("photos", n=16), initial=network, n_fit=0).score
    0.0
    """
    data, model = tensor_or_images(data), as_network(model)
    if initial is not None and not isinstance(initial, Mapping):
        initial = as_network(initial)
    before = _started(model, initial)
    x = data.x if isinstance(data, ImageData) else data
    if x.ndim != 4 or len(x) < 2 or n_kernel < 2:
        raise InvalidInput(f"`data` and `n_kernel` must give at least 2 images; got {len(x)} and {n_kernel}.")
    with without_autocast(model, before):  # copies keep it
        trained = copy.deepcopy(model).eval()
        x = x.to(next(trained.parameters()))
        chosen = torch.randperm(len(x), generator=generator_from("regime", seed))[:n_kernel]
        few, labels = x[chosen], data.y[chosen] if isinstance(data, ImageData) else None
        _calibrate(before, few)
        ends = [trained, *(_randomly_moved(before, trained, seed, step) for step in range(N_RANDOM_STEPS))]
        fewer = few[: max(len(few) // 4, FEWEST_OF_RANDOM)]
        initial_kernel, kernel, unrelated, *random = _kernels(before, ends, few, fewer, seed=seed, show=show)
        aligned = [_alignment(one, labels, seed) for one in (initial_kernel, kernel)]
        training = _movement(initial_kernel, kernel, *_squared_changes(before, trained, few))
        corner = slice(len(fewer))
        start, others = initial_kernel[corner, corner], [kernel[corner, corner], *random]
        squares = [_squared_changes(before, end, fewer) for end in ends]
        steps = [_movement(start, one, *square) for one, square in zip(random, squares[1:], strict=True)]
        right = _accuracies(before, trained, data, test, n_fit, seed, show)
        weights, initial = (dict(m.named_parameters()) for m in (trained, before))
        return RegimeResult(
            training=training,
            random_steps=tuple(steps),
            null_range=_null_range([step.score for step in steps], _left_out(start, others, squares)),
            unrelated=ntk_change(start, unrelated),
            movement=_distance(weights, initial),
            changes=_changes(weights, initial),
            alignment=aligned[1],
            initial_alignment=aligned[0],
            accuracy=right.network,
            chance=right.chance,
            linear_accuracy=right.linear,
            expansion_accuracy=right.expansion,
            n_kernel=len(few),
            n_outputs=min(MOST_OUTPUTS, _n_outputs(trained, few[:1])),
            n_fit=right.n_fit,
            n_test=right.n_test,
        )


def _kernels(
    before: nn.Module,
    ends: Sequence[nn.Module],
    few: Tensor,
    fewer: Tensor,
    *,
    seed: int,
    show: bool | None,
) -> list[Tensor]:
    """Tangent kernels of the initial network, the model, an unrelated one, and random steps of its size."""
    pick = _picked(before, few[:1], seed)
    unrelated = fresh_initial(before, seed=seed)
    _calibrate(unrelated, few)
    return [
        ntk_gram(which, images, output_part=pick, label=f"Tangent kernel of {word}", show=show)
        for which, images, word in (
            (before, few, "the initial network"),
            (ends[0], few, "the model"),
            (unrelated, fewer, "an independent initialisation"),
            *((end, fewer, f"random step {i + 1} of {N_RANDOM_STEPS}") for i, end in enumerate(ends[1:])),
        )
    ]


def _started(model: nn.Module, initial: nn.Module | Mapping[str, Tensor] | None) -> nn.Module:
    if initial is None:
        raise InvalidInput(
            "`initial` must be the network before its training: how far it moved cannot be told without. Keep a copy "
            "or a state dict before you train, or rebuild it from the same seed."
        )
    if isinstance(initial, nn.Module):
        before = copy.deepcopy(initial)
    else:
        before = copy.deepcopy(model)
        before.load_state_dict(dict(initial))
    shapes = [{name: p.shape for name, p in m.named_parameters()} for m in (model, before)]
    if shapes[0] != shapes[1]:
        raise InvalidInput("`initial` must have the weights of `model`, by name and shape; it has others.")
    return before.eval()


def _calibrate(model: nn.Module, images: Tensor) -> None:
    """Give batch normalisations the statistics of the images, in place; nothing else changes."""
    norms = [m for m in model.modules() if isinstance(m, nn.modules.batchnorm._BatchNorm)]
    if not norms:
        return
    momenta = [norm.momentum for norm in norms]
    model.eval()
    for norm in norms:
        norm.reset_running_stats()
        norm.momentum = None
        norm.train()
    with torch.no_grad():
        model(images)
    for norm, momentum in zip(norms, momenta, strict=True):
        norm.momentum = momentum
        norm.eval()


def _n_outputs(model: nn.Module, image: Tensor) -> int:
    with torch.no_grad(), evaluating(model):
        return int(model(image).flatten(1).shape[1])


def _picked(model: nn.Module, image: Tensor, seed: int) -> Callable[[Tensor], Tensor]:
    """A few of the outputs if there are many."""
    count = _n_outputs(model, image)
    order = torch.randperm(count, generator=generator_from("regime outputs", seed))
    chosen = order[:MOST_OUTPUTS].sort().values.to(image.device)
    return lambda result: result.flatten(1)[:, chosen]


@torch.no_grad()
def _randomly_moved(before: nn.Module, trained: nn.Module, seed: int, step: int) -> nn.Module:
    """The initial network moved as far as training moved every weight tensor, in random directions."""
    moved, generator = copy.deepcopy(before), generator_from("random step", seed, step)
    ends = dict(trained.named_parameters())
    for name, p in moved.named_parameters():
        direction = torch.randn(p.shape, generator=generator).to(p)
        p.add_(direction * ((ends[name] - p).norm() / direction.norm().clamp(min=1e-12)))
    return moved


@torch.no_grad()
def _moved_line(before: nn.Module, end: nn.Module) -> LinearizedModel:
    """The linearisation at the initial weights, moved as the network moved."""
    line, ends = linearize(before), dict(end.named_parameters())
    held = dict(before.named_parameters())
    return line.displace({name: ends[name] - held[name] for name, _ in line.displacement.named_parameters()})


def _squared_changes(before: nn.Module, end: nn.Module, images: Tensor) -> tuple[Tensor, Tensor]:
    """Squared change of the outputs, image by image, and what of it the linearisation does not explain."""
    models = (before, _moved_line(before, end), end)
    initial, linear, after = (predictions(m, images, batch_size=64).double().flatten(1) for m in models)
    return (after - initial).square().sum(1), (after - linear).square().sum(1)


def _movement(
    before: Float[Tensor, "n n"],
    after: Float[Tensor, "n n"],
    change: Float[Tensor, " n"],
    missed: Float[Tensor, " n"],
) -> Movement:
    whole, rest = math.sqrt(float(change.sum())), math.sqrt(float(missed.sum()))
    remainder = 0.0 if rest == 0 else min(1.0, rest / max(whole, 1e-30))
    return Movement(kernel=ntk_change(before, after), remainder=remainder)


def _left_out(
    initial: Float[Tensor, "n n"], kernels: Sequence[Tensor], squares: Sequence[tuple[Tensor, Tensor]]
) -> Float[Tensor, "n steps"]:
    """Scores of every step with each image left out in turn."""
    rows = []
    for image in range(len(initial)):
        kept = torch.arange(len(initial)) != image
        start = initial[kept][:, kept]
        rows.append([
            _movement(start, kernel[kept][:, kept], change[kept], missed[kept]).score
            for kernel, (change, missed) in zip(kernels, squares, strict=True)
        ])  # fmt: skip
    return torch.tensor(rows, dtype=torch.float64)


def _null_range(scores: Sequence[float], left_out: Float[Tensor, "n steps"]) -> Interval:
    """Where the score of a random step lies: by the spread over directions and, of its distance, over images."""
    null = torch.tensor(scores[1:], dtype=torch.float64)
    n, draws = len(left_out), len(null)
    # jackknife of training minus random steps: both are measured on the same images, of which there are few
    distance = left_out[:, 0] - left_out[:, 1:].mean(1)
    over_images = (n - 1) * distance.var(correction=0)
    spread = math.sqrt(float(null.var() * (1 + 1 / draws) + over_images))
    half, mean = STUDENT * spread, float(null.mean())
    return Interval(value=mean, low=max(0.0, mean - half), high=min(1.0, mean + half), level=0.95)


def _alignment(kernel: Float[Tensor, "n n"], labels: Tensor | None, seed: int) -> LabelAlignment | None:
    if labels is None or len(torch.unique(labels)) < 2:
        return None
    return label_alignment(kernel, labels.to(kernel.device), seed=seed)


@dataclass(frozen=True)
class _Right:
    network: float = math.nan
    chance: float = math.nan
    linear: float = math.nan
    expansion: float = math.nan
    n_fit: int = 0
    n_test: int = 0


def _accuracies(
    before: nn.Module,
    trained: nn.Module,
    data: ImageData | Tensor,
    test: ImageData | None,
    n_fit: int | None,
    seed: int,
    show: bool | None,
) -> _Right:
    """Accuracy of the network and of its linearisations, where outputs and classes correspond."""
    if n_fit == 0 or not isinstance(data, ImageData):
        return _Right()
    if data.n_classes != _n_outputs(trained, data.x[:1].to(next(trained.parameters()))):
        return _Right()
    order = torch.randperm(len(data), generator=generator_from("regime fit", seed))
    most = len(data) if test is not None else len(data) // 2
    count = min(N_FIT_ROWS // data.n_classes if n_fit is None else n_fit, most)
    held = test if test is not None else data.take(order[count:])
    fitted = data.take(order[:count])
    targets = torch.nn.functional.one_hot(fitted.y, data.n_classes).double()
    solved = solve_linearized(before, fitted.x, targets, show=show)
    return _Right(
        network=accuracy(trained, held),
        chance=float(held.counts.max()) / len(held),
        linear=accuracy(solved.solution(), held),
        expansion=accuracy(_moved_line(before, trained), held),
        n_fit=count,
        n_test=len(held),
    )


def _distance(weights: Mapping[str, Tensor], initial: Mapping[str, Tensor]) -> float:
    moved = sum(
        float((weights[name] - w).detach().cpu().double().square().sum()) for name, w in initial.items()
    )
    size = sum(float(w.detach().cpu().double().square().sum()) for w in initial.values())
    return math.sqrt(moved / size)


def _changes(weights: Mapping[str, Tensor], initial: Mapping[str, Tensor]) -> tuple[LayerChange, ...]:
    names = [name for name, w in initial.items() if w.ndim > 1 and bool(w.any())]
    ends, starts = (
        {
            name.removesuffix(".weight"): which[name].detach().cpu().double().reshape(1, len(which[name]), -1)
            for name in names
        }
        for which in (weights, initial)
    )
    return layer_changes(ends, starts)
