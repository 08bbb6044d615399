"""The page of one's own model: what it is, what it looks at, what is wrong with it."""

import dataclasses
import math

import torch

from firstlight.figures import Curve, Dots, Figure, curves, dots, picture_grid, sprite
from firstlight.insights import Inspection
from firstlight.measures.first_layer import Profile
from firstlight.measures.linearized import LayerChange
from firstlight.report.ansatz import ansatz_sections, count, verdict
from firstlight.report.page import Page, Panel, Section
from firstlight.report.regime import LAZY, regime_sections


def inspection_page(found: Inspection) -> Page:
    """Turn an inspection into a page."""
    sections = [_model(found)]
    if found.profile is not None:
        sections.append(_first_layer(found.profile))
    sections += [*ansatz_sections(found), _movement(found), *_lazy(found), _faults(found)]
    return Page(
        title=f"What {found.name} has learned",
        lead=(_what(found), verdict(found.ansatz), _moved(found), _fault_words(found), _certainty(found)),
        sections=tuple(sections),
        facts={
            "Data": f"{found.data_name}, {found.n_images} images",
            "Start": found.start,
            "Time": f"{found.seconds:.0f} s",
        },
    )


def _what(found: Inspection) -> str:
    convolutions = sum("Conv" in layer.kind for layer in found.layers)
    shape = " x ".join(str(side) for side in found.image_shape)
    text = (
        f"{found.name} has {found.n_parameters:,} parameters, {count(convolutions, 'convolution')} and "
        f"{count(len(found.layers) - convolutions, 'linear layer')}; it was shown "
        f"{count(found.n_images, 'image')} of {shape}."
    )
    if math.isfinite(found.accuracy):
        text += (
            f" It names {found.accuracy:.0%} of them rightly (the largest class alone is {found.chance:.0%})."
        )
    return text


def _certainty(found: Inspection) -> str:
    errors = [row.pearson_error for row in found.ansatz.rows if math.isfinite(row.pearson_error)]
    sure = (
        f"correlations are known to about ±{2 * max(errors):.2f} or better"
        if errors
        else "errors are unknown"
    )
    how = "This was a fast look" if found.is_fast else "How sure these numbers are"
    return f"{how}: with {found.ansatz.n_images} images and {found.ansatz.method}, {sure}."


def _model(found: Inspection) -> Section:
    names = [layer.name for layer in found.layers]
    figure = dots(
        names,
        [Dots.of("weights", [torch.tensor([float(layer.n_weights)]) for layer in found.layers])],
        title="Layers and their weights",
        alt=f"Number of weights of {len(names)} layers",
        x="layer",
        y="weights",
        height=320,
        log_y=True,
    ).with_columns(
        {
            "kind": [layer.kind for layer in found.layers],
            "shape": [" x ".join(map(str, layer.shape)) for layer in found.layers],
        }
    )
    return Section(
        title="What is this model?",
        answer=_what(found),
        panels=(
            Panel(figure=figure, shows="Every convolution and linear layer, in the order of the model."),
        ),
    )


def _first_layer(profile: Profile) -> Section:
    filters = profile.layer.weight.float()
    controls = profile.controls()
    coarse = float(profile.energy.square().cumsum(0)[max(len(profile.energy) // 3 - 1, 0)])
    share = coarse / float(profile.energy.square().sum())
    return Section(
        title="What does the first layer look at?",
        answer=f"The coarsest third of the patch patterns holds {share:.0%} of its filters' energy; evenly spread "
        f"filters would have 33 %. The profile correlates at {controls['random filters']:.2f} with that of random "
        f"filters and at {controls['root of variances']:.2f} with the root of the patch variances, which a single "
        "step of training imprints whatever the labels are.",
        panels=(
            Panel(
                figure=picture_grid(
                    filters[:128],
                    title="Filters",
                    alt=f"{min(len(filters), 128)} small patterns, the filters of the first convolution",
                    columns=16,
                ),
                formulas=("energy",),
                shows="Every filter on its own symmetric scale; middle grey is zero."
                + (f" The first 128 of {len(filters)}." if len(filters) > 128 else ""),
            ),
            Panel(
                figure=_profile_figure(profile),
                shows="Energy of the filters along the principal components of the patches, from coarse to fine.",
                published="Trained first layers agree on a band: neither the very coarse nor the very fine.",
                formulas=("energy", "components"),
            ),
        ),
    )


def _profile_figure(profile: Profile) -> Figure:
    top = float(profile.energy.max())
    root = profile.root_variance / profile.root_variance.max() * top
    figure = curves(
        [
            Curve(name="this model", values=profile.energy[None]),
            Curve(name="random filters of the same size", values=profile.nulls, role="null"),
            Curve(name="root of patch variances (scaled)", values=root[None], role="theory"),
        ],
        title="Energy profile of the first layer",
        alt="Energy against patch component for the model, for random filters and for the root of the variances",
        x="patch component, by decreasing variance",
        y="energy",
    )
    pictures = profile.pca.basis.mT.reshape(-1, *profile.layer.weight.shape[1:])
    return dataclasses.replace(figure, sprite=sprite(pictures, name="component"))


def _moved(found: Inspection) -> str:
    changes = found.changes
    if not changes:
        return "Start and end could not be compared."
    most, least = (pick(changes, key=lambda c: c.distance) for pick in (max, min))
    if found.is_own_start:
        lazy = sum(c.distance < 0.1 for c in changes)
        return (
            f"Training moved layer {most.name} most, by {most.distance:.1f} times its initial size, and layer "
            f"{least.name} least ({least.distance:.2f}); {lazy} of {len(changes)} layers moved by less than a tenth."
        )
    grown = sum(c.growth > 1 for c in changes)
    simple = sum(c.effective_rank < 0.8 * c.initial_rank for c in changes)
    return (
        f"Against a fresh initialisation {grown} of {len(changes)} layers have larger weights and {simple} use clearly "
        "fewer directions. How far training moved them cannot be told without the actual start."
    )


def _movement(found: Inspection) -> Section:
    changes = found.changes
    own = found.is_own_start
    panels = (
        (
            Panel(
                figure=_distance_figure(changes),
                formulas=("movement",),
                shows="Distance of every layer from its start, in units of the start's size. The grey bars are the "
                "distance that unrelated weights of the same size would have: "
                + (
                    "a layer that reaches them has forgotten where it began."
                    if own
                    else "as the start here is a stranger, every layer lies there; give the actual one by `initial` "
                    "(--initial) to see movement."
                ),
            ),
            Panel(
                figure=_rank_figure(changes),
                formulas=("effective rank",),
                shows="Number of directions that the filters of a layer really use (effective rank), now and at the "
                "start. Training on few features lowers it.",
            ),
        )
        if changes
        else ()
    )
    return Section(title="How far is every layer from its start?", answer=_moved(found), panels=panels)


def _lazy(found: Inspection) -> tuple[Section, ...]:
    if found.regime is not None:
        return regime_sections(found.regime)
    return (Section(title=LAZY, answer=f"Not known: {found.no_regime.rstrip('.')}.", panels=()),)


def _distance_figure(changes: tuple[LayerChange, ...]) -> Figure:
    return dots(
        [c.name for c in changes],
        [
            Dots.of("unrelated weights", [torch.tensor([c.unrelated]) for c in changes], role="null"),
            Dots.of("this model", [torch.tensor([c.distance]) for c in changes]),
        ],
        title="Distance from the start",
        alt=f"Relative distance of {len(changes)} layers from the start, with that of unrelated weights",
        x="layer",
        y="distance / size of the start",
    ).with_columns(
        {
            "growth of the norm": [c.growth for c in changes],
            "cosine with the start": [c.cosine for c in changes],
        }
    )


def _rank_figure(changes: tuple[LayerChange, ...]) -> Figure:
    return dots(
        [c.name for c in changes],
        [
            Dots.of("this model", [torch.tensor([c.effective_rank]) for c in changes]),
            Dots.of("start", [torch.tensor([c.initial_rank]) for c in changes], role="initial"),
        ],
        title="Directions in use",
        alt=f"Effective rank of the filters of {len(changes)} layers, now and at the start",
        x="layer",
        y="effective rank",
        height=340,
        log_y=True,
    )


def _fault_words(found: Inspection) -> str:
    hidden = {row.layer for row in found.ansatz.rows if not row.is_output}
    faults = [fault for fault in found.faults if fault.name in hidden or fault.dead]
    dead, same = sum(len(f.dead) for f in faults), sum(f.n_superfluous for f in faults)
    total = sum(f.n_filters for f in found.faults)
    if dead == same == 0:
        return f"None of its {total:,} filters is dead or a copy of another."
    worst = max(faults, key=lambda f: (len(f.dead) + f.n_superfluous) / f.n_filters)
    return (
        f"Of {total:,} filters {dead:,} are dead (no output noticed them on these images) and {same:,} repeat another; "
        f"worst is layer {worst.name}: {len(worst.dead)} dead, {worst.n_superfluous} repeated of {worst.n_filters}."
    )


def _faults(found: Inspection) -> Section:
    faults = found.faults
    figure = dots(
        [f.name for f in faults],
        [
            Dots.of("dead", [torch.tensor([len(f.dead) / f.n_filters]) for f in faults]),
            Dots.of(
                "repeated",
                [torch.tensor([f.n_superfluous / f.n_filters]) for f in faults],
                role="random labels",
            ),
        ],
        title="Dead and repeated filters",
        alt=f"Share of dead and of repeated filters in {len(faults)} layers",
        x="layer",
        y="share of the layer's filters",
        height=320,
    ).with_columns(
        {
            "filters": [f.n_filters for f in faults],
            "mirrored pairs": [f.mirrored for f in faults],
            "dead filters": [", ".join(map(str, f.dead)) for f in faults],
            "first repeated": ["; ".join(" = ".join(map(str, s)) for s in f.duplicates[:3]) for f in faults],
        }
    )
    return Section(
        title="Does it carry dead weight?",
        answer=_fault_words(found),
        panels=(
            Panel(
                figure=figure,
                shows="A filter is dead if no output of the model changes with it on any image shown, repeated if it "
                f"points in the direction of another (cosine above {faults[0].threshold if faults else 0.99}). "
                "More images may wake some of the dead.",
            ),
        ),
    )
