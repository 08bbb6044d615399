"""The tour's part on the first layer: what it learned, what explains it, how it got there."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.result import Result
from firstlight.data.images import ImageData
from firstlight.measures.first_layer.consistency import Agreement, Consistency, agreement, consistency
from firstlight.measures.first_layer.energy_profile import (
    patch_basis,
    profile,
    profile_from,
    profiles_over_time,
)
from firstlight.measures.first_layer.frequency import FrequencyReading, band_energy, component_frequencies
from firstlight.models.building import ModelSpec
from firstlight.questions.first_layer.measure import ProfileExplanation, explain_profile
from firstlight.training.ensemble import Trained
from firstlight.training.observers import Observer, Snapshots, geometric_steps

WEIGHT = "0.weight"  # of the first convolution of the small network


@dataclass(frozen=True, kw_only=True)
class FirstLayerTour(Result):
    """What the first layer learned.

    Parameters
    ----------
    explanation : ProfileExplanation
        Profile of the first network with its theory curve.
    energies, initial : Tensor of shape (nets, m)
        Trained and initial profile of every network.
    consistency : Consistency
        Correlation of all networks, controls included.
    pair : Agreement
        The first two networks in detail.
    steps : tuple of int
        When the first network was looked at.
    growth : Tensor of shape (t, m)
        Profile of its accumulated update at those steps.
    course : Tensor of shape (t, m)
        Profile of its weights at those steps.
    shots : Tensor of shape (t, k, c, h, w)
        Its filters at those steps.
    bands : Tensor of shape (3,)
        Share of the energy of the update (trained minus initial) in low, middle and high frequency.
    components : FrequencyReading
        Frequency of every component.
    moved : Tensor of shape (nets,)
        How far the first layer moved, relative to its initial size.
    filters : Tensor of shape (k, c, h, w)
        Of the first network.
    """

    explanation: ProfileExplanation
    energies: Float[Tensor, "nets m"]
    initial: Float[Tensor, "nets m"]
    consistency: Consistency
    pair: Agreement
    steps: tuple[int, ...]
    growth: Float[Tensor, "t m"]
    course: Float[Tensor, "t m"]
    shots: Float[Tensor, "t k c h w"]
    bands: Float[Tensor, " 3"]
    components: FrequencyReading
    moved: Float[Tensor, " nets"]
    filters: Float[Tensor, "k c h w"]


@dataclass(frozen=True)
class FirstLayerSnapshots:
    """Makes the observer of one training; named, so that the run can be stored."""

    total: int
    name: str = "first-layer snapshots"

    def __call__(self, steps_per_epoch: int) -> list[Observer]:
        """Watch the first layer, most closely at the start."""
        return [Snapshots([WEIGHT], steps=geometric_steps(self.total))]


def run_first_layer_tour(
    spec: ModelSpec, nets: list[Trained], models: list[nn.Module], train: ImageData, *, seed: int = 0
) -> FirstLayerTour:
    """Measure the first layers of networks that were watched by :class:`FirstLayerSnapshots`.

    Parameters
    ----------
    spec : ModelSpec
        Their architecture.
    nets, models : list of Trained or list of torch.nn.Module
        At least two, and the same as modules.
    train : ImageData
        What they were trained on.
    seed : int, default 0
        Of the choice of images and of resampling.
    """
    explanation = explain_profile(models[0], train, seed=seed)
    first = explanation.profile
    profiles = {f"seed {net.seed}": profile(m, train, seed=seed) for net, m in zip(nets, models, strict=True)}
    starts = [spec(net.seed) for net in nets]
    update = profile(models[0], train, subtract=starts[0], seed=seed)
    initial = []
    for model in starts:
        layer, _ = patch_basis(model, train, n_images=8)
        initial.append(profile_from(layer, first.pca).energy)
    shots = nets[0].records[0]
    moved = [float((n.weights[WEIGHT] - n.initial[WEIGHT]).norm() / n.initial[WEIGHT].norm()) for n in nets]
    return FirstLayerTour(
        explanation=explanation,
        energies=torch.stack([p.energy for p in profiles.values()]),
        initial=torch.stack(initial),
        consistency=consistency(profiles),
        pair=agreement(*list(profiles.values())[:2], seed=seed),
        steps=tuple(int(s) for s in shots["steps"]),
        growth=profiles_over_time(shots[WEIGHT], first, subtract_first=True),
        course=profiles_over_time(shots[WEIGHT], first),
        shots=shots[WEIGHT],
        bands=band_energy(update),
        components=component_frequencies(first),
        moved=torch.tensor(moved),
        filters=first.layer.weight.clone(),  # stored arrays may not share memory
    )
