"""The first layer on a page: its filters and where they lie between coarse and fine."""

import dataclasses
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.measures.feature_ansatz.filter_activity import FilterFaults
from firstlight.measures.first_layer.energy_profile import Profile
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.pictures import picture_grid, sprite
from firstlight.pages.page import Panel, Section
from firstlight.questions.inspect.page_ansatz import count

LOOKS = "What does the first layer look at?"
MOST_SHOWN = 128  # filters in the picture
MOST_LISTED = 40  # numbers of dead filters in a sentence; the table has all
MOST_POINTS = 36  # of a profile; more are averaged into bands
N_BANDS = 15
PIXELS = 48  # side of a filter in the picture


def first_layer_section(profile: Profile, faults: tuple[FilterFaults, ...]) -> Section:
    """Filters and energy profile, with the controls that could explain the profile away."""
    filters = profile.layer.weight
    dead = dead_of(profile, faults)
    dead_words = f" Crossed out: {count(len(dead), 'dead filter')} ({listed(dead)})." if dead else ""
    controls = profile.controls()
    return Section(
        title=LOOKS,
        answer=f"The coarsest third of the patch patterns holds {coarse_share(profile):.0%} of its filters' energy; "
        f"evenly spread filters would have 33%. The profile correlates at {controls['random filters']:.2f} with that "
        f"of random filters and at {controls['root of variances']:.2f} with the root of the patch variances, which a "
        "single step of training imprints whatever the labels are.",
        panels=(
            Panel(
                figure=filters_figure(profile, faults, most=MOST_SHOWN),
                formulas=("energy",),
                shows="All filters on one symmetric scale; middle grey is zero."
                + (f" The first {MOST_SHOWN} of {len(filters)}." if len(filters) > MOST_SHOWN else "")
                + dead_words,
            ),
            Panel(
                figure=profile_figure(profile),
                shows="Amplitude of the filters along the principal components of the patches, from coarse to fine"
                + (f", averaged into {N_BANDS} bands." if len(profile.amplitude) > MOST_POINTS else "."),
                published="Trained first layers agree on a band: neither the very coarse nor the very fine.",
                formulas=("energy", "components"),
            ),
        ),
    )


def coarse_share(profile: Profile) -> float:
    """Share of the filters' energy in the third of the components with the largest variance."""
    energy = profile.amplitude.square()
    return float(energy[: max(len(energy) // 3, 1)].sum() / energy.sum())


def dead_of(profile: Profile, faults: tuple[FilterFaults, ...]) -> list[int]:
    """Dead filters of the first layer, as far as they are in the picture."""
    names = {fault.name: fault for fault in faults}
    fault = names.get(profile.layer.name.removesuffix(".weight"))
    return [] if fault is None else [i for i in fault.dead if i < MOST_SHOWN]


def filters_figure(profile: Profile, faults: tuple[FilterFaults, ...], *, most: int) -> Figure:
    """The filters as pictures, large enough to see, the dead ones crossed out."""
    filters = profile.layer.weight.float()[:most]
    name = profile.layer.name.removesuffix(".weight")
    pictures = _pictures(filters)
    return picture_grid(
        pictures,
        title=f"Filters of {name}" if name else "Filters of the first layer",
        alt=f"{len(filters)} small patterns, the filters of the first convolution",
        scale="all",
        marked=dict.fromkeys((i for i in dead_of(profile, faults) if i < most), "dead"),
        columns=8 if most <= 32 else 16,
        zoom=max(1, PIXELS // max(pictures.shape[2:])),
    )


def listed(numbers: list[int]) -> str:
    """Numbers with commas, cut short after as many as a sentence can hold."""
    return ", ".join(map(str, numbers[:MOST_LISTED])) + (", ..." if len(numbers) > MOST_LISTED else "")


def in_bands(values: Float[Tensor, "n m"]) -> tuple[Float[Tensor, "n b"], list[float]]:
    """Root mean square within bands of neighbouring components, and their middles; few components stay as they are.

    Examples
    --------
    >>> values, middles = in_bands(torch.ones(1, 75))
    >>> values.shape, middles[:2]
    (torch.Size([1, 15]), [3.0, 8.0])
    """
    m = values.shape[1]
    if m <= MOST_POINTS:
        return values, [float(i) for i in range(1, m + 1)]
    edges = [round(i * m / N_BANDS) for i in range(N_BANDS + 1)]
    pairs = list(pairwise(edges))
    bands = [values[:, a:b].square().mean(1).sqrt() for a, b in pairs]
    return torch.stack(bands, 1), [(a + 1 + b) / 2 for a, b in pairs]


def profile_figure(profile: Profile) -> Figure:
    """Amplitude along the components, with random filters and the root of the variances."""
    top = float(profile.amplitude.max())
    root = profile.root_variance / profile.root_variance.max() * top
    rows, middles = in_bands(torch.cat([profile.amplitude[None], root[None], profile.nulls]))
    figure = curves(
        [
            Curve(name="this model", values=rows[:1]),
            Curve(name="random filters of the same size", values=rows[2:], role="null"),
            Curve(name="root of patch variances (scaled)", values=rows[1:2], role="theory"),
        ],
        title="Energy profile of the first layer",
        alt="Amplitude against patch component for the model, for random filters and for the root of the variances",
        x="patch component, by decreasing variance",
        y="amplitude",
        at=middles,
    )
    # components span all channels, of which a filter of a group sees a part
    patterns = profile.pca.basis.mT.reshape(-1, profile.layer.channels, *profile.layer.size)
    shown = patterns[[int(middle) - 1 for middle in middles]]
    return dataclasses.replace(figure, sprite=sprite(_pictures(shown), name="component"))


def _pictures(patterns: Float[Tensor, "n c h w"]) -> Float[Tensor, "n k rows columns"]:
    """Patterns as pictures: in grey or colour if that is what their channels are, else channels below each other."""
    n, channels, h, w = patterns.shape
    if channels in (1, 3) and h > 1:
        return patterns
    return patterns.reshape(n, 1, 1, channels) if h == w == 1 else patterns.reshape(n, 1, channels * h, w)
