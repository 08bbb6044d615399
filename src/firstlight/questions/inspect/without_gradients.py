"""What weights and forward passes tell of a network: its layers, dead filters, movement, and the cost of the rest."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.autograd.forward_recorder import Recorder
from firstlight._internal.autograd.gradient_accumulators import reduced_passes
from firstlight._internal.autograd.layers import AppliedLayer
from firstlight._internal.autograd.model_outputs import (
    N_EXACT,
    N_LEADING,
    N_RANDOM,
    demand_finite_weights,
    run,
)
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._internal.environment import free_memory
from firstlight._internal.errors import InvalidInput
from firstlight.measures.feature_ansatz.ansatz import N_NULLS
from firstlight.measures.feature_ansatz.filter_activity import (
    FilterActivity,
    FilterFaults,
    filter_faults,
)
from firstlight.measures.feature_ansatz.patch_gradients import LayerGradients, discovered
from firstlight.measures.first_layer.energy_profile import Profile, profile
from firstlight.measures.linearized.weight_change import LayerChange, layer_changes
from firstlight.models.kinds import unwrapped
from firstlight.questions.inspect.result import LayerSummary

FLOPS = 1e10  # of decompositions in double precision, in a second of one core
MOST_PRODUCTS = (
    8e12  # of the passes for gradients: 512 images of a ResNet-18 at 32 pixels, 32 of a ResNet-50 at 224
)
FEWEST_IMAGES = 8  # as many sets give a standard error
MOST_TIMED, TIMED_SECONDS = (
    16,
    0.3,
)  # images of a batch that tells how long one takes, and how long it may take
PASS = 1.0  # a backward pass to the inputs of all layers, in forward passes: as many products


@dataclass(frozen=True, eq=False)
class AppliedLayers:
    """The layers that a forward pass applies to one image, and what it took.

    Parameters
    ----------
    layers : dict of str to AppliedLayer
        By name, in the order of the forward pass.
    skipped : dict of str to str
        Layers that cannot be measured, with the reason.
    calls, elements : dict of str to int
        How often an image meets each layer, and how many numbers that gives.
    n_outputs : int
        Of the model; 0 if it returns no row of numbers.
    seconds : float
        Of the fastest of three forward passes.
    """

    layers: dict[str, AppliedLayer]
    skipped: dict[str, str]
    calls: dict[str, int]
    elements: dict[str, int]
    n_outputs: int
    seconds: float

    @property
    def products(self) -> dict[str, int]:
        """Products of every layer in a forward pass of one image."""
        return {name: self.elements[name] * layer.weight[0].numel() for name, layer in self.layers.items()}


def applied_layers(model: nn.Module, image: Tensor, names: str | Sequence[str] = "all") -> AppliedLayers:
    """Layers of a model as it applies them, from forward passes of one image and of a few, which are timed.

    Parameters
    ----------
    model : torch.nn.Module
        Any module that maps images to outputs.
    image : Tensor of shape (1, ...)
        As the model expects it.
    names : str or sequence of str, default 'all'
        "all", "convolutions", or names of layers.
    """
    model = unwrapped(model)
    demand_differentiable(model)
    demand_finite_weights(model)
    model, _ = in_full_precision(model)
    with torch.no_grad(), evaluating(model):
        image = image.to(next(model.parameters()))
        recorder = Recorder(model)
        layers, skipped = discovered(recorder, image, names if isinstance(names, str) else tuple(names))
        calls, elements = dict(recorder.calls), dict(recorder.elements)
        outputs, seconds = _timed(model, image)  # the passes before compiled and allocated
        # a batch keeps threads busy, as those to come will; the fastest is least disturbed by others
        n = max(1, min(MOST_TIMED, int(TIMED_SECONDS / seconds)))
        batch = image.repeat_interleave(n, 0)
        seconds = min([seconds, *(_timed(model, batch)[1] / n for _ in range(3))])
    n_outputs = outputs[0].numel() if isinstance(outputs, Tensor) and outputs.ndim else 0
    return AppliedLayers(layers, skipped, calls, elements, n_outputs, seconds)


def _timed(model: nn.Module, images: Tensor) -> tuple[Any, float]:
    begun = time.perf_counter()
    outputs = run(model, images)
    return outputs, time.perf_counter() - begun


def faults_of(
    layers: Sequence[AppliedLayer | LayerGradients], activity: FilterActivity
) -> tuple[FilterFaults, ...]:
    """Dead and duplicate filters."""
    return tuple(
        filter_faults(layer.filters, activity.active[layer.name], n_images=activity.n_images, name=layer.name)
        for layer in layers
    )


def changes_of(
    trained: Mapping[str, AppliedLayer], initial: Mapping[str, AppliedLayer]
) -> tuple[LayerChange, ...]:
    """Distance of every layer from its initial weights."""
    # a layer that starts from zero has no distance relative to its start
    before = {name: layer.filters for name, layer in initial.items() if bool(layer.weight.any())}
    common = {name: layer.filters for name, layer in trained.items() if name in before}
    return layer_changes(common, {name: before[name] for name in common})


def demand_memory(applied: AppliedLayers) -> None:
    """Refuse, before anything is computed, a model whose matrices do not fit into memory."""
    needed = _bytes_needed(applied.layers)
    if needed > (free := free_memory()):
        raise InvalidInput(
            f"Measuring this model takes about {needed / 1e9:.1f} GB of memory; {free / 1e9:.1f} GB are free. Choose "
            "fewer layers by `layers`, or close other programs."
        )


def _bytes_needed(layers: Mapping[str, AppliedLayer]) -> int:
    """Sums of gradients, filters in double precision before and after, and the rotations of the largest layer."""
    ranks = {name: _rank(layer) for name, layer in layers.items()}
    sums = sum(2 * 8 * layer.groups * ranks[name] ** 2 for name, layer in layers.items())
    weights = sum(2 * 8 * layer.weight.numel() for layer in layers.values())
    largest = max(
        (8 * 3 * N_NULLS * layer.groups * ranks[name] ** 2 for name, layer in layers.items()), default=0
    )
    return sums + weights + largest + 1_000_000_000  # the graph of one block of images


def _rank(layer: AppliedLayer) -> int:
    return min(len(layer.weight) // layer.groups, layer.weight[0].numel())


def passes_of_gradients(applied: AppliedLayers, n_images: int) -> float:
    """What gradients of all layers take for one image of `n_images`, in forward passes."""
    layers, elements, forward = applied.layers, applied.elements, applied.products
    # products of the sum of outer products of a layer, for one image and pass
    sums = {name: elements[name] * _rank(layer) for name, layer in layers.items()}
    n_outputs = applied.n_outputs
    usual = n_outputs if n_outputs <= N_EXACT else N_LEADING + N_RANDOM
    fewer = reduced_passes(layers, elements, n_images=n_images, n_outputs=n_outputs)
    apart = frozenset(name for some in fewer for name in some.layers)
    rounds = [(usual, frozenset(layers) - apart), *((some.n_passes, some.layers) for some in fewer)]
    whole = max(1, sum(forward.values()))
    passes = 1.0
    for n_passes, wanted in rounds:
        names = list(layers)
        # a pass goes down to the first layer that it is for
        deepest = min((names.index(name) for name in wanted), default=len(names))
        reached = sum(forward[name] for name in names[deepest:])
        passes += PASS * n_passes * (reached + sum(sums[name] for name in wanted)) / whole
    return passes


def affordable_images(applied: AppliedLayers, most: int) -> int:
    """Images for gradients that a minute or two of one core allow: the most, or a half, a quarter ... of them.

    It depends on the network only, not on the machine: the same command gives the same numbers everywhere.
    """
    whole = sum(applied.products.values())
    n = most
    while n // 2 >= FEWEST_IMAGES and n * passes_of_gradients(applied, n) * whole > MOST_PRODUCTS:
        n //= 2
    return n


def seconds_of_correlations(applied: AppliedLayers) -> float:
    """Seconds that correlations with their nulls should take: decompositions of the matrices of every layer."""
    work = {
        (layer.groups, _rank(layer), len(layer.weight) // layer.groups) for layer in applied.layers.values()
    }
    # frames are drawn once for layers of equal shape, and rotated for each
    frames = sum(4 * N_NULLS * g * k * r**2 for g, r, k in work)
    each = sum((10 + 4 * N_NULLS) * layer.groups * _rank(layer) ** 3 for layer in applied.layers.values())
    return (frames + each) / FLOPS


def layer_summary(layer: AppliedLayer, calls: Mapping[str, int]) -> LayerSummary:
    """What a layer is; `calls` says how often an image meets each."""
    return LayerSummary(
        name=layer.name,
        kind=layer.kind,
        shape=(len(layer.weight), *layer.shape),
        n_weights=layer.weight.numel(),
        n_calls=calls.get(layer.name, 1),
    )


def profile_or_none(model: nn.Module, x: Tensor, seed: int) -> Profile | None:
    """Energy profile of the first convolution, where there is one."""
    try:
        return profile(model, x, seed=seed)
    except InvalidInput:  # no layer over patches comes first
        return None
