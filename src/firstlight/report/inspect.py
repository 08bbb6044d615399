"""The page of one's own model: what it is, what it looks at, what is wrong with it."""

import dataclasses
import math

import torch

from firstlight.figures import Curve, Dots, Figure, curves, dots, picture_grid
from firstlight.figures.pictures import sprite
from firstlight.insights import Inspection
from firstlight.measures.feature_ansatz import FilterFaults
from firstlight.measures.first_layer import Profile
from firstlight.measures.linearized import LayerChange
from firstlight.report.ansatz import ansatz_sections, ansatz_sentence, count
from firstlight.report.page import Page, Panel, Section
from firstlight.report.regime import LAZY, regime_sections

MOST_SHOWN = 128  # filters in the picture


def inspection_page(inspection: Inspection) -> Page:
    """Turn an inspection into a page."""
    sections = [_model(inspection)]
    if inspection.profile is not None:
        sections.append(_first_layer(inspection.profile, inspection.faults))
    sections += [*ansatz_sections(inspection), _movement(inspection), *_lazy(inspection), _faults(inspection)]
    return Page(
        title=f"What {inspection.name} has learned",
        lead=(
            _what(inspection),
            *_unmeasured(inspection),
            ansatz_sentence(inspection.ansatz),
            _moved(inspection),
            _fault_words(inspection),
            _certainty(inspection),
        ),
        sections=tuple(sections),
        facts={
            "Data": f"{inspection.data_name}, {inspection.n_images} images",
            "Initial weights": inspection.initial_source,
            "Time": f"{inspection.seconds:.0f} s",
        },
    )


def _what(inspection: Inspection) -> str:
    convolutions = sum("Conv" in layer.kind for layer in inspection.layers)
    shape = " x ".join(str(side) for side in inspection.image_shape)
    text = (
        f"{inspection.name} has {inspection.n_parameters:,} parameters, {count(convolutions, 'convolution')} and "
        f"{count(len(inspection.layers) - convolutions, 'linear layer')}; it was shown "
        f"{count(inspection.n_images, 'image')} of {shape}."
    )
    if math.isfinite(inspection.accuracy):
        text += (
            f" It classifies {inspection.accuracy:.0%} of them correctly (always naming the largest class would give "
            f"{inspection.chance:.0%})."
        )
    return text


def _unmeasured(inspection: Inspection) -> tuple[str, ...]:
    """Which layers nothing here speaks of, and why; nothing stands in for them."""
    skipped = inspection.ansatz.skipped
    if not skipped:
        return ()
    total = len(skipped) + len(inspection.layers)
    listed = "; ".join(f"{name}: {reason}" for name, reason in list(skipped.items())[:3])
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    return (f"{len(skipped)} of {total} layers were not measured ({listed}{more}).",)


def _certainty(inspection: Inspection) -> str:
    errors = [row.pearson_error for row in inspection.ansatz.rows if math.isfinite(row.pearson_error)]
    sure = (
        f"correlations are known to about ±{2 * max(errors):.2f} or better"
        if errors
        else "errors are unknown"
    )
    how = "This was a fast look" if inspection.is_fast else "How certain these numbers are"
    return f"{how}: with {inspection.ansatz.n_images} images and {inspection.ansatz.method}, {sure}."


def _model(inspection: Inspection) -> Section:
    names = [layer.name for layer in inspection.layers]
    figure = dots(
        names,
        [Dots.of("weights", [torch.tensor([float(layer.n_weights)]) for layer in inspection.layers])],
        title="Layers and their weights",
        alt=f"Number of weights of {len(names)} layers",
        x="layer",
        y="weights",
        height=320,
        log_y=True,
    ).with_columns(
        {
            "kind": [layer.kind for layer in inspection.layers],
            "shape": [" x ".join(map(str, layer.shape)) for layer in inspection.layers],
        }
    )
    return Section(
        title="What is this model?",
        answer=_what(inspection),
        panels=(
            Panel(
                figure=figure, shows="Every layer that was measured, in the order in which images meet them."
            ),
        ),
    )


def _first_layer(profile: Profile, faults: tuple[FilterFaults, ...]) -> Section:
    filters = profile.layer.weight.float()
    dead = [
        i
        for fault in faults
        if f"{fault.name}.weight" == profile.layer.name
        for i in fault.dead
        if i < MOST_SHOWN
    ]
    dead_words = f" Crossed out: {count(len(dead), 'dead filter')} ({_listed(dead)})." if dead else ""
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
                    filters[:MOST_SHOWN],
                    title="Filters",
                    alt=f"{min(len(filters), MOST_SHOWN)} small patterns, the filters of the first convolution",
                    scale="all",
                    marked=dict.fromkeys(dead, "dead"),
                    columns=16,
                ),
                formulas=("energy",),
                shows="All filters on one symmetric scale; middle grey is zero."
                + (f" The first {MOST_SHOWN} of {len(filters)}." if len(filters) > MOST_SHOWN else "")
                + dead_words,
            ),
            Panel(
                figure=_profile_figure(profile),
                shows="Energy of the filters along the principal components of the patches, from coarse to fine.",
                published="Trained first layers agree on a band: neither the very coarse nor the very fine.",
                formulas=("energy", "components"),
            ),
        ),
    )


def _listed(numbers: list[int]) -> str:
    """Numbers with commas, cut short after twelve."""
    return ", ".join(map(str, numbers[:12])) + (", ..." if len(numbers) > 12 else "")


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


def _moved(inspection: Inspection) -> str:
    changes = inspection.changes
    if not changes:
        return "Initial and trained weights could not be compared."
    most, least = (pick(changes, key=lambda c: c.distance) for pick in (max, min))
    if inspection.has_own_initial:
        lazy = sum(c.distance < 0.1 for c in changes)
        return (
            f"Training moved layer {most.name} most, by {most.distance:.1f} times its initial size, and layer "
            f"{least.name} least ({least.distance:.2f}); {lazy} of {len(changes)} layers moved by less than a tenth."
        )
    grown = sum(c.growth > 1 for c in changes)
    simple = sum(c.effective_rank < 0.8 * c.initial_rank for c in changes)
    return (
        f"Against a fresh initialisation {grown} of {len(changes)} layers have larger weights and {simple} use clearly "
        "fewer directions. How far training moved them cannot be told without the actual initial weights."
    )


def _movement(inspection: Inspection) -> Section:
    changes = inspection.changes
    own = inspection.has_own_initial
    panels = (
        (
            Panel(
                figure=_distance_figure(changes),
                formulas=("movement",),
                shows="Distance of every layer from its initial weights, in units of their size. The grey bars are the "
                "distance that unrelated weights of the same size would have: "
                + (
                    "a layer that reaches them keeps no trace of where it began."
                    if own
                    else "without the actual initial weights, every layer looks as far away as an unrelated network. "
                    "Pass them as `initial` (--initial) to see movement."
                ),
            ),
            Panel(
                figure=_rank_figure(changes),
                formulas=("effective rank",),
                shows="Number of directions that the filters of a layer really use (effective rank), trained and "
                "initial. Training on few features lowers it.",
            ),
        )
        if changes
        else ()
    )
    return Section(title="How far did every layer move?", answer=_moved(inspection), panels=panels)


def _lazy(inspection: Inspection) -> tuple[Section, ...]:
    if inspection.regime is not None:
        return regime_sections(inspection.regime)
    return (Section(title=LAZY, answer=f"Not known: {inspection.no_regime.rstrip('.')}.", panels=()),)


def _distance_figure(changes: tuple[LayerChange, ...]) -> Figure:
    return dots(
        [c.name for c in changes],
        [
            Dots.of("unrelated weights", [torch.tensor([c.unrelated]) for c in changes], role="null"),
            Dots.of("this model", [torch.tensor([c.distance]) for c in changes]),
        ],
        title="Distance from the initial weights",
        alt=f"Relative distance of {len(changes)} layers from the initial weights, with that of unrelated weights",
        x="layer",
        y="distance / initial size",
    ).with_columns(
        {
            "growth of the norm": [c.growth for c in changes],
            "cosine with the initial weights": [c.cosine for c in changes],
        }
    )


def _rank_figure(changes: tuple[LayerChange, ...]) -> Figure:
    return dots(
        [c.name for c in changes],
        [
            Dots.of("this model", [torch.tensor([c.effective_rank]) for c in changes]),
            Dots.of("initial", [torch.tensor([c.initial_rank]) for c in changes], role="initial"),
        ],
        title="Directions in use",
        alt=f"Effective rank of the filters of {len(changes)} layers, trained and initial",
        x="layer",
        y="effective rank",
        height=340,
        log_y=True,
    )


def _fault_words(inspection: Inspection) -> str:
    hidden = {row.layer for row in inspection.ansatz.rows if not row.is_output}
    faults = [fault for fault in inspection.faults if fault.name in hidden or fault.dead]
    dead, same = sum(len(f.dead) for f in faults), sum(f.n_superfluous for f in faults)
    total = sum(f.n_filters for f in inspection.faults)
    if dead == same == 0:
        return f"None of its {total:,} filters is dead or a copy of another."
    worst = max(faults, key=lambda f: (len(f.dead) + f.n_superfluous) / f.n_filters)
    return (
        f"Of {total:,} filters {dead:,} are dead (no output changed with them on these images) and {same:,} repeat "
        f"another; the worst is layer {worst.name}: {len(worst.dead)} dead and {worst.n_superfluous} repeated of "
        f"{worst.n_filters}."
    )


def _faults(inspection: Inspection) -> Section:
    faults = inspection.faults
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
        answer=_fault_words(inspection),
        panels=(
            Panel(
                figure=figure,
                shows="A filter is dead if no output of the model changes with it on any image shown, repeated if it "
                f"points in the direction of another (cosine above {faults[0].threshold if faults else 0.99}). "
                "With more images, some of the dead may turn out to be alive.",
            ),
        ),
    )
