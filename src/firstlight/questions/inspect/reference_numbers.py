"""The numbers of a network that have a reference range, from an inspection or measured by themselves in seconds."""

import math
from collections.abc import Container, Mapping, Sequence

from torch import nn

from firstlight.data.images import ImageData
from firstlight.measures.feature_ansatz.ansatz import TRAINED, Ansatz, ansatz_from
from firstlight.measures.feature_ansatz.filter_activity import FilterFaults
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.measures.first_layer.energy_profile import Profile
from firstlight.measures.linearized.weight_change import LayerChange
from firstlight.networks.reference import CONVOLUTION, WHOLE, LayerNumbers, Measured
from firstlight.questions.inspect.accuracy import outcome_and_activity
from firstlight.questions.inspect.newer_papers import FeatureReport, report_of
from firstlight.questions.inspect.result import Inspection, LayerSummary
from firstlight.questions.inspect.without_gradients import (
    applied_layers,
    changes_of,
    faults_of,
    layer_summary,
    profile_or_none,
)

N_IMAGES = 64  # behind gradients and features
N_ACTIVITY = 1000  # behind dead filters, as in an inspection

NUMBERS = {
    "coarse": "share of the filters' energy in the coarsest third of the patch patterns",
    "fine": "share of the filters' energy in the finest third of the patch patterns",
    "like random": "correlation of the energy profile with that of random filters",
    "ansatz": "correlation of filters and gradients",
    "ansatz excess": "correlation of filters and gradients above that of rotated gradients",
    "centred ansatz": "correlation of what training added with the gradients",
    "exponent": "power of the gradients that the filters are closest to",
    "movement": "distance from the initial weights, in units of their size",
    "growth": "size of the weights over that of the initial ones",
    "rank": "directions in use over those of the initial weights",
    "dead": "share of dead filters",
    "repeated": "share of filters that repeat another",
    "class variation": "variation within classes over that between them",
    "richness": "how much of the last features the outputs use, above random readouts",
}
"""What has a range, in words."""


def numbers_of(inspection: Inspection) -> Measured:
    """Numbers of an inspected network, as the reference has them."""
    return Measured(
        name=inspection.name, family="", group="", accuracy=inspection.accuracy,
        side=max(inspection.image_shape[1:], default=0),
        layers=_layers(
            inspection.layers, ansatz=inspection.ansatz, faults=inspection.faults, profile=inspection.profile,
            changes=inspection.changes if inspection.has_own_initial else (), later=inspection.features,
        ),
    )  # fmt: skip


def measured_numbers(
    model: nn.Module,
    images: ImageData,
    *,
    initial: nn.Module | None,
    name: str,
    family: str,
    group: str,
    seed: int = 0,
) -> Measured:
    """Measure what has a range, without pictures, tangent kernels and most nulls: seconds instead of a minute.

    Parameters
    ----------
    model : torch.nn.Module
        The network.
    images : ImageData
        Test images as it expects them, with their labels.
    initial : torch.nn.Module or None
        The network before training; without it nothing is known of movement.
    name, family, group : str
        See :class:`firstlight.networks.reference.Measured`.
    seed : int, default 0
        Seed for the choice of images and the nulls.
    """
    few = images.sample(min(N_IMAGES, len(images)), seed=seed)
    many = images.sample(min(N_ACTIVITY, len(images)), seed=seed)
    gradients = patch_gradients(model, few.x, n_images=len(few), seed=seed, show=False)
    applied = applied_layers(model, few.x[:1])
    before = {} if initial is None else applied_layers(initial, few.x[:1]).layers
    how_right, activity = outcome_and_activity(model, many, seed=seed)
    return Measured(
        name=name, family=family, group=group, accuracy=how_right.value, side=max(images.shape[1:]),
        layers=_layers(
            [layer_summary(layer, applied.calls) for layer in applied.layers.values()],
            ansatz=ansatz_from(gradients, seed=seed),
            changes=changes_of(applied.layers, before),
            faults=faults_of(gradients.layers, activity), profile=profile_or_none(model, many.x, seed),
            later=report_of(model, few, initial, gradients, seed=seed, draws=1, show=False),
        ),
    )  # fmt: skip


def _layers(
    summaries: Sequence[LayerSummary],
    *,
    ansatz: Ansatz,
    changes: Sequence[LayerChange],
    faults: Sequence[FilterFaults],
    profile: Profile | None,
    later: FeatureReport | None,
) -> tuple[LayerNumbers, ...]:
    """What was measured, layer by layer, then what belongs to no single layer."""
    outputs = {row.layer for row in ansatz.rows if row.is_output}
    found: dict[str, dict[str, float]] = {layer.name: {} for layer in summaries}
    for row in ansatz.pair(TRAINED, hidden=True):
        found[row.layer] |= {"ansatz": row.pearson, "ansatz excess": row.excess}
    centred, variation = (later.centred, later.variation) if later else (None, None)
    for row in centred.pair(centred.rows[0].pair, hidden=True) if centred and centred.rows else ():
        found[row.layer]["centred ansatz"] = row.pearson
    for one in later.exponents if later else ():
        if not one.is_output:
            found[one.layer]["exponent"] = one.exponent
    for change in changes:
        found[change.name] |= {
            "movement": change.distance, "growth": change.growth, "rank": change.effective_rank / change.initial_rank,
        }  # fmt: skip
    for fault in faults:
        if fault.name not in outputs:
            share = {
                "dead": len(fault.dead) / fault.n_filters,
                "repeated": fault.n_superfluous / fault.n_filters,
            }
            found[fault.name] |= share
    for name, ratio in zip(variation.layers, variation.ratio.tolist(), strict=True) if variation else ():
        if name in found and name not in outputs:
            found[name]["class variation"] = ratio
    kinds = layer_kinds(summaries, outputs)
    first = next((name for name, (kind, _) in kinds.items() if kind.startswith("first")), None)
    if profile is not None and first is not None:
        found[first] |= _profile_numbers(profile)
    layers = [
        LayerNumbers(name=name, kind=kinds[name][0], depth=kinds[name][1], numbers=_finite(numbers))
        for name, numbers in found.items()
    ]
    if later is not None and later.richness is not None:
        whole = {"richness": later.richness.excess}
        layers.append(LayerNumbers(name=WHOLE, kind=WHOLE, depth=1.0, numbers=_finite(whole)))
    return tuple(layers)


def _profile_numbers(profile: Profile) -> dict[str, float]:
    energy = profile.amplitude.square()
    energy = energy / energy.sum().clamp(min=1e-300)
    third = max(len(energy) // 3, 1)
    return {
        "coarse": float(energy[:third].sum()),
        "fine": float(energy[-third:].sum()),
        "like random": profile.controls()["random filters"],
    }


def layer_kinds(summaries: Sequence[LayerSummary], outputs: Container[str]) -> dict[str, tuple[str, float]]:
    """Kind of every layer, and where it lies among those between the first convolution and the output."""
    kinds: dict[str, tuple[str, float]] = {}
    hidden = [layer for layer in summaries if layer.name not in outputs]
    has_first = bool(hidden) and len(hidden[0].shape) == 4
    inner = hidden[1:] if has_first else hidden
    for place, layer in enumerate(inner):
        kinds[layer.name] = (_kind(layer), (place + 0.5) / len(inner))
    for layer in summaries:
        if layer.name in outputs:
            kinds[layer.name] = ("output layer", 1.0)
        elif has_first and layer is hidden[0]:
            kinds[layer.name] = (
                "first convolution" if layer.kind == "Conv2d" else f"first {layer.kind}",
                0.0,
            )
    return kinds


def _kind(layer: LayerSummary) -> str:
    """Kind of an inner layer; what is no plain convolution over images or linear layer keeps its class's name."""
    if layer.kind == "Conv2d":
        _, channels, *size = layer.shape
        if channels == 1:
            return "depthwise convolution"
        return CONVOLUTION if math.prod(size) > 1 else "1 x 1 convolution"
    return "hidden linear layer" if layer.kind == "Linear" else layer.kind


def _finite(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: value for name, value in numbers.items() if math.isfinite(value)}
