"""The tour's part on the first layer: what it learned, what explains it, how it got there."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.result import Result
from firstlight.data.images import ImageData
from firstlight.maths.correlation import Interval
from firstlight.measures.first_layer.consistency import Consistency, agreement, consistency
from firstlight.measures.first_layer.energy_profile import (
    band_energy,
    patch_basis,
    profile,
    profile_from,
    profiles_over_time,
)
from firstlight.questions.first_layer.measure import ProfileExplanation, explain_profile


@dataclass(frozen=True, kw_only=True)
class FirstLayerTour(Result):
    """What the first layer learned.

    Parameters
    ----------
    explanation : ProfileExplanation
        Profile of the first network with its theory curve.
    amplitudes, initial : Tensor of shape (nets, m)
        Trained and initial profile of every network.
    controls : dict of str to Tensor of shape (m,)
        Profiles of networks that could not learn the task, by what was done to them.
    consistency : Consistency
        Correlation of all networks, controls included; None for a single one.
    pair : Interval
        Correlation of the first two networks, with its range over filter banks; None for a single one.
    steps : tuple of int
        When the first network was looked at.
    growth : Tensor of shape (t, m)
        Profile of its accumulated update at those steps.
    course : Tensor of shape (t, m)
        Profile of its weights at those steps.
    bands : Tensor of shape (3,)
        Share of the energy of the update (trained minus initial) in low, middle and high frequency.
    moved : Tensor of shape (nets,)
        How far the first layer moved, relative to its initial size.
    filters : Tensor of shape (k, c, h, w)
        Of the first network.
    """

    explanation: ProfileExplanation
    amplitudes: Float[Tensor, "nets m"]
    initial: Float[Tensor, "nets m"]
    controls: dict[str, Float[Tensor, " m"]]
    consistency: Consistency | None
    pair: Interval | None
    steps: tuple[int, ...]
    growth: Float[Tensor, "t m"]
    course: Float[Tensor, "t m"]
    bands: Float[Tensor, " 3"]
    moved: Float[Tensor, " nets"]
    filters: Float[Tensor, "k c h w"]


def run_first_layer_tour(
    networks: Mapping[str, tuple[nn.Module, nn.Module]],
    film: tuple[tuple[int, ...], Float[Tensor, "t k c h w"]],
    train: ImageData,
    *,
    controls: Mapping[str, nn.Module] | None = None,
    seed: int = 0,
) -> FirstLayerTour:
    """Measure the first layers of networks that were trained on the same images.

    Parameters
    ----------
    networks : mapping of str to pair of torch.nn.Module
        Each network after and before training, the one in question first. Those whose first layer sees patches of
        another size have other components; they are left out.
    film : pair of tuple of int and Tensor
        Steps, and filters of the first network at each of them.
    train : ImageData
        Images that they were trained on, as they see them.
    controls : mapping of str to torch.nn.Module, optional
        Networks that could not learn the task.
    seed : int, default 0
        Seed for the choice of images and for resampling.
    """
    (model, start), *_ = networks.values()
    explanation = explain_profile(model, train, seed=seed)
    first = explanation.profile
    profiles, initial, moved = {}, [], []
    for name, (trained, before) in networks.items():
        layer, _ = patch_basis(before, train, n_images=8)
        if layer.weight.shape[1:] != first.layer.weight.shape[1:]:
            continue
        profiles[name] = profile(trained, train, seed=seed)
        initial.append(profile_from(layer, first.pca).amplitude)
        change = profiles[name].layer.weight - layer.weight
        moved.append(float(change.norm() / layer.weight.norm()))
    update = profile(model, train, subtract=start, seed=seed)
    alone = len(profiles) < 2
    steps, shots = film
    return FirstLayerTour(
        explanation=explanation,
        amplitudes=torch.stack([p.amplitude for p in profiles.values()]),
        initial=torch.stack(initial),
        controls={name: profile(one, train, seed=seed).amplitude for name, one in (controls or {}).items()},
        consistency=None if alone else consistency(profiles),
        pair=None if alone else agreement(*list(profiles.values())[:2], seed=seed),
        steps=steps,
        growth=profiles_over_time(shots, first, subtract_first=True),
        course=profiles_over_time(shots, first),
        bands=band_energy(update),
        moved=torch.tensor(moved),
        filters=first.layer.weight.clone(),  # stored arrays may not share memory
    )
