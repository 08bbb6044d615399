"""The page of one's own model: what it is, what it looks at, what is wrong with it."""

import dataclasses
import math
from collections.abc import Sequence

import torch

from firstlight.measures.feature_ansatz.filter_activity import ENOUGH_IMAGES, FilterFaults
from firstlight.measures.linearized.weight_change import LayerChange
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from firstlight.pages.page import Page, Panel, Section
from firstlight.questions.inspect.accuracy import Outcome
from firstlight.questions.inspect.page_ansatz import FOLLOW, ansatz_advice, ansatz_sections, count
from firstlight.questions.inspect.page_findings import FAULTS, MOVED, highlights, layer_table
from firstlight.questions.inspect.page_first_layer import first_layer_section, listed
from firstlight.questions.inspect.page_newer_papers import later_sections
from firstlight.questions.inspect.page_reference import judged, reference_section
from firstlight.questions.inspect.result import Inspection
from firstlight.questions.regime.page import LAZY, regime_sections

FEW_IMAGES = 32  # below, a sentence about gradients says on how many images it rests


def inspection_page(inspection: Inspection) -> Page:
    """Turn an inspection into a page: what was found and what to do about it, then the figures behind that.

    Of a network at chance, or on pixels that cannot be right, nothing else that was measured means anything.
    """
    if inspection.outcome.problem:
        return _page(
            inspection,
            (f"No other verdict is given: {inspection.outcome.problem}", _what(inspection)),
            tried_sections(inspection.outcome),
        )
    sections = (
        [first_layer_section(inspection.profile, inspection.faults)] if inspection.profile is not None else []
    )
    sections += [*_faults(inspection), *_gradient_sections(inspection), _movement(inspection)]
    judgement = None if inspection.pending else judged(inspection)
    if judgement:
        sections += [*_lazy(inspection), *later_sections(inspection.features), reference_section(judgement)]
    shown = highlights(inspection)
    lead = (
        *_accuracy(inspection),
        *_unmeasured(inspection),
        *_precision(inspection),
        *(() if any(found.section == FAULTS for found in shown) else (_fault_words(inspection),)),
        *((judgement.sentence(),) if judgement else ()),
        *few_words(inspection.n_images),
    )
    return dataclasses.replace(
        _page(inspection, lead, tuple(sections)),
        highlights=shown,
        table=layer_table(inspection, judgement.readings if judgement else ()),
        is_folded=True,
        pending=inspection.pending,
        reloads=True,
    )


def _gradient_sections(inspection: Inspection) -> tuple[Section, ...]:
    """What gradients tell, or that it is still to come."""
    if inspection.pending:
        return (Section(title=FOLLOW, answer="Still being measured: it takes gradients of every layer."),)
    found = ansatz_sections(
        inspection.ansatz,
        eigenvectors=inspection.eigenvectors,
        maps=inspection.maps,
        shown=inspection.shown,
        calls={layer.name: layer.n_calls for layer in inspection.layers},
    )
    few = f"On {count(inspection.n_images, 'image')} only: " if inspection.n_images < FEW_IMAGES else ""
    said = f"{few}{found[0].answer} {ansatz_advice(inspection.ansatz)}".strip()
    return (dataclasses.replace(found[0], answer=said), *found[1:])


def few_words(n_images: int) -> tuple[str, ...]:
    """On how few images the findings rest, if they are few.

    Examples
    --------
    >>> few_words(16)
    ('Gradients were measured on 16 images only: take what they say as a hint.',)
    """
    if n_images >= FEW_IMAGES:
        return ()
    return (f"Gradients were measured on {count(n_images, 'image')} only: take what they say as a hint.",)


def _page(inspection: Inspection, lead: tuple[str, ...], sections: tuple[Section, ...]) -> Page:
    return Page(
        title=f"What {inspection.name.removeprefix('networks:')} has learned",
        lead=lead,
        sections=(*sections, _model(inspection)),
        facts={
            "Data": f"{inspection.data_name}, {inspection.n_images} images",
            "Initial weights": inspection.initial_source,
            "Time": f"{inspection.seconds:.0f} s",
        },
    )


def tried_sections(outcome: Outcome) -> tuple[Section, ...]:
    """How often the network is right with each normalisation that was tried."""
    if not outcome.tried:
        return ()
    names = [one.name for one in outcome.tried]
    ranges = [torch.tensor([a.low, a.value, a.high]) for a in (one.accuracy for one in outcome.tried)]
    figure = dots(
        names,
        [
            Dots.of("chance", [torch.tensor([outcome.chance])] * len(names), role="null"),
            Dots.of("accuracy", ranges),
        ],
        title="Accuracy by normalisation",
        alt=f"Accuracy with {len(names)} normalisations of the pixels, each with its 95% interval, and chance",
        y="share of the images",
        height=320,
    ).with_columns({"flags": [one.flags for one in outcome.tried]})
    shows = "Share of right answers with its 95% interval, for each normalisation that was tried."
    answer = outcome.problem
    return (
        Section(
            title="Which scaling of the pixels fits?",
            answer=answer,
            panels=(Panel(figure=figure, shows=shows),),
        ),
    )


def _accuracy(inspection: Inspection) -> tuple[str, ...]:
    """What else is worth is known from here."""
    outcome = inspection.outcome
    return (f"It classifies {outcome.words}.",) if outcome.accuracy is not None else ()


def _what(inspection: Inspection) -> str:
    convolutions = sum("conv" in layer.kind.lower() for layer in inspection.layers)
    shape = " x ".join(str(side) for side in inspection.image_shape)
    text = (
        f"{inspection.name} has {inspection.n_parameters:,} parameters, {count(convolutions, 'convolution')} and "
        f"{count(len(inspection.layers) - convolutions, 'linear layer')}, and takes images of {shape}."
    )
    return (
        text
        if inspection.pending
        else f"{text} Gradients were measured on {count(inspection.n_images, 'image')}."
    )


def _unmeasured(inspection: Inspection) -> tuple[str, ...]:
    """Which layers nothing here speaks of, and why; nothing stands in for them."""
    skipped = inspection.unmeasured
    if not skipped:
        return ()
    listed = "; ".join(f"{name}: {reason}" for name, reason in list(skipped.items())[:3])
    more = f"; and {len(skipped) - 3} more" if len(skipped) > 3 else ""
    number = f"{len(skipped)} of {inspection.n_layers} layers were not measured"
    return (f"{number} ({listed}{more}). The correlations below leave them out.",)


def _precision(inspection: Inspection) -> tuple[str, ...]:
    if not inspection.precision:
        return ()
    return (f"Precision: {inspection.precision}, as half precision has too few digits for gradients.",)


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
    """How certain the numbers are, and every layer that was measured."""
    layers = {
        f"{i + 1}, {layer.name}": f"{layer.kind}, {' x '.join(map(str, layer.shape))}, {layer.n_weights:,} weights"
        + (f", applied {layer.n_calls} times to every image" if layer.n_calls > 1 else "")
        for i, layer in enumerate(inspection.layers)
    }
    said = _what(inspection) if inspection.pending else f"{_what(inspection)} {_certainty(inspection)}"
    return Section(title="What was measured?", answer=said, details=layers)


def _moved(inspection: Inspection) -> str:
    changes = inspection.changes
    if not changes:
        return "Initial and trained weights could not be compared."
    most, least = (pick(changes, key=lambda c: c.distance) for pick in (max, min))
    if inspection.has_own_initial:
        lazy = sum(c.distance < 0.1 for c in changes)
        small = f" {count(lazy, 'layer')} moved by less than a tenth: try freezing them." if lazy else ""
        return (
            f"Training moved layer {most.name} most, by {most.distance:.1f} times its initial size, and layer "
            f"{least.name} least ({least.distance:.2f}).{small}"
        )
    grown = sum(c.growth > 1 for c in changes)
    simple = sum(c.effective_rank < 0.8 * c.initial_rank for c in changes)
    return (
        f"Against a fresh initialisation {grown} of {len(changes)} layers have larger weights and {simple} use clearly "
        "fewer directions. Keep the initial weights of your next training and pass them as `initial` (--initial): "
        "without them, nobody can tell how far the layers moved."
    )


def _movement(inspection: Inspection) -> Section:
    """Distances where they mean something: every network is far from a fresh initialisation."""
    changes = inspection.changes
    title = MOVED if inspection.has_own_initial else "How many directions are in use?"
    panels = []
    if changes and inspection.has_own_initial:
        panels.append(
            Panel(
                figure=_distance_figure(changes),
                formulas=("movement",),
                shows="Distance of every layer from its initial weights, in units of their size. The grey bars are the "
                "distance that unrelated weights of the same size would have: a layer that reaches them keeps no trace "
                "of where it began.",
            )
        )
    if changes:
        panels.append(
            Panel(
                figure=_rank_figure(changes),
                formulas=("effective rank",),
                shows="Number of directions that the filters of a layer really use (effective rank), trained and "
                "initial. Training on few features lowers it.",
            )
        )
    zero = [
        layer.name for layer in inspection.layers if layer.name not in {change.name for change in changes}
    ]
    known = inspection.has_own_initial and zero
    note = f" Left out, as no distance is relative to zero or to nothing: {', '.join(zero)}." if known else ""
    return Section(title=title, answer=_moved(inspection) + note, panels=tuple(panels))


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
    """Which filters do nothing, or nothing new, and what to do about them."""
    silent = inspection.silent
    faults = [
        f for f in inspection.faults if (f.name not in inspection.outputs or f.dead) and f not in silent
    ]
    dead, same = sum(len(f.dead) for f in faults), sum(f.n_superfluous for f in faults)
    total = sum(f.n_filters for f in inspection.faults)
    if dead == same == 0 and not silent:
        return f"None of its {total:,} filters is dead or a copy of another."
    sentences = [_silent_words(silent)] if silent else []
    if dead:
        sentences += [_dead_words(faults, dead, total), silence(faults[0].n_images)]
        if faults[0].n_images >= ENOUGH_IMAGES:
            sentences.append("Prune them; if there are many, lower the learning rate.")
    if same:
        worst = max(faults, key=lambda f: f.n_superfluous / f.n_filters)
        sentences.append(
            f"{same:,} filters repeat another, most of all in layer {worst.name} ({worst.n_superfluous} of "
            f"{worst.n_filters}), which could be narrower."
        )
    return " ".join(sentences)


def silence(n: int) -> str:
    """What it means that a filter responded to none of `n` images, by the rule of three.

    Examples
    --------
    >>> silence(1000)
    'Dead: no activation in 1,000 images (so on less than 0.3% of images, 95% sure).'
    """
    few = "" if n >= ENOUGH_IMAGES else f" Too few for advice: give at least {ENOUGH_IMAGES:,}."
    percent = 300 / max(n, 3)
    bound = f"{percent:.{1 if percent < 10 else 0}f}%"
    return f"Dead: no activation in {n:,} images (so on less than {bound} of images, 95% sure).{few}"


def _silent_words(silent: Sequence[FilterFaults]) -> str:
    """Layers that contribute nothing as a whole: their filters need not be dead."""
    names = ", ".join(fault.name for fault in silent[:3]) + (", ..." if len(silent) > 3 else "")
    who = (
        f"A whole layer ({names}) contributes"
        if len(silent) == 1
        else f"Each of {len(silent)} whole layers ({names}) contributes"
    )
    return (
        f"{who} nothing on these images: its weights are zero, its units have died, or what it computes is "
        "multiplied by zero further on, as by a normalisation whose weights start at zero in an untrained network. "
        "Look at the weights there and behind."
    )


def _dead_words(faults: Sequence[FilterFaults], dead: int, total: int) -> str:
    """The dead filters of the layer that images meet first among those that have any, one by one."""
    first = next(fault for fault in faults if fault.dead)
    numbers = listed(list(first.dead))
    verb = "is" if len(first.dead) == 1 else "are"
    said = f"{len(first.dead)} of {first.n_filters} filters of layer {first.name} {verb} dead: {numbers}."
    if dead == len(first.dead):
        return said
    layers = sum(bool(fault.dead) for fault in faults)
    return f"{said} In all, {dead:,} of {total:,} filters in {layers} layers are."


def _faults(inspection: Inspection) -> tuple[Section, ...]:
    """A figure only if there is something to see in it."""
    faults = inspection.faults
    if not any(fault.dead or fault.n_superfluous for fault in faults):
        return ()
    shares = {
        "dead": ([len(f.dead) / f.n_filters for f in faults], "trained"),
        "repeated": ([f.n_superfluous / f.n_filters for f in faults], "random labels"),
    }
    figure = dots(
        [f.name for f in faults],
        [
            Dots.of(name, [torch.tensor([value]) for value in values], role=role)
            for name, (values, role) in shares.items()
            if any(values)
        ],
        title=f"{' and '.join(name for name, (values, _) in shares.items() if any(values)).capitalize()} filters",
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
    section = Section(
        title=FAULTS,
        answer=_fault_words(inspection),
        panels=(
            Panel(
                figure=figure,
                shows=f"A filter is dead if it responds to none of {faults[0].n_images:,} images, repeated if it "
                f"points in the direction of another (cosine above {faults[0].threshold}). A layer of which all "
                "filters are dead may only be switched off by the layer behind it.",
            ),
        ),
    )
    return (section,)
