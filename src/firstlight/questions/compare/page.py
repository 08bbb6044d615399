"""The page of several models: how what they learned changes over training, or differs between them."""

import math
from collections.abc import Sequence
from typing import TypeVar

import torch

from firstlight.measures.feature_ansatz.filter_activity import ENOUGH_IMAGES
from firstlight.networks.reference import LayerNumbers, Measured, Reading, reference
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.pages.page import Highlight, Page, Panel, Section, Table
from firstlight.questions.compare.measure import ComparedModel, Comparison
from firstlight.questions.inspect.page import few_words, silence, tried_sections
from firstlight.questions.inspect.page_ansatz import count
from firstlight.questions.inspect.page_findings import (
    CORRELATION_WORDS,
    HEALTHY_WORDS,
    MOST_FINDINGS,
    healthy_column,
)
from firstlight.questions.inspect.page_first_layer import in_bands
from firstlight.questions.inspect.reference_numbers import layer_kinds
from firstlight.questions.inspect.result import LayerSummary

PROFILE, ANSATZ = "Does the first layer look at something else?", "Do the filters follow the gradients?"
DEAD, MOVED, LAZY = "Do filters die?", "How far did the layers move?", "Was training lazy?"
T = TypeVar("T")
MOST_CURVES = 8  # models that one figure can tell apart


def comparison_page(comparison: Comparison) -> Page:
    """Turn a comparison into a page.

    Parameters
    ----------
    comparison : Comparison
        What :func:`firstlight.questions.compare.measure.compare` returned.
    """
    # at chance nothing else that was measured means anything
    if comparison.problem:
        said: tuple[str, ...] = (f"No other verdict is given: {comparison.problem}",)
        shown = tried_sections(comparison.models[-1].outcome)
    else:
        sections = _sections(comparison)
        said = tuple(f"{section.title} {section.answer}" for section in sections if not section.panels)
        shown = tuple(section for section in sections if section.panels)
    return Page(
        title=f"{count(len(comparison.models), 'model')} side by side",
        lead=(
            *(said if comparison.problem else ()),
            _what(comparison),
            *(() if comparison.problem else said),
            *_left_out(comparison),
            *_unmeasured(comparison),
            *_precision(comparison),
            *_counterparts(comparison),
            *few_words(comparison.n_images),
        ),
        highlights=()
        if comparison.problem
        else tuple(
            Highlight(
                title=section.title,
                words=section.answer,
                figures=(section.panels[0].figure.small(),),
                section=section.title,
            )
            for section in shown[:MOST_FINDINGS]
        ),
        table=None if comparison.problem else layer_table(comparison),
        is_folded=not comparison.problem,
        sections=shown,
        facts={
            "Data": f"{comparison.data_name}, {comparison.n_images} images",
            "Initial weights": comparison.reference,
            "Time": f"{comparison.seconds:.0f} s",
        },
    )


# ---------------------------------------------------------------- what was compared


def _what(comparison: Comparison) -> str:
    models = comparison.models
    names = ", ".join(model.name for model in models[:6]) + (", ..." if len(models) > 6 else "")
    text = f"{names}, on {comparison.data_name}."
    if math.isfinite(models[-1].accuracy):
        first, last = models[0].outcome, models[-1].outcome
        text = f"{models[-1].name} classifies {last.words}"
        if first.accuracy is not None:
            text += f", {models[0].name} {first.value:.0%} ({first.accuracy.low:.0%} to {first.accuracy.high:.0%})"
        text += "."
    return text


def _left_out(comparison: Comparison) -> tuple[str, ...]:
    return tuple(f"Left out: {name}. {reason}" for name, reason in comparison.left_out.items())


def _unmeasured(comparison: Comparison) -> tuple[str, ...]:
    """Which layers nothing on the page speaks of, and why; said once for models that have them in common."""
    by_layer: dict[tuple[str, str], list[str]] = {}
    for model in comparison.models:
        for layer, reason in model.unmeasured.items():
            by_layer.setdefault((layer, reason), []).append(model.name)
    if not by_layer:
        return ()
    listed = [
        f"{layer} of {'all models' if len(names) == len(comparison.models) else ', '.join(names[:3])} ({reason})"
        for (layer, reason), names in list(by_layer.items())[:3]
    ]
    more = f"; and {len(by_layer) - 3} more" if len(by_layer) > 3 else ""
    return (f"Layers that were not measured: {'; '.join(listed)}{more}.",)


def _precision(comparison: Comparison) -> tuple[str, ...]:
    return tuple(f"{model.name}: {model.precision}." for model in comparison.models if model.precision)


def _counterparts(comparison: Comparison) -> tuple[str, ...]:
    """Say how layers of different architectures correspond, and which do not."""
    if comparison.is_one_architecture:
        return ()
    alone = [
        f"{model}: {', '.join(names[:6])}{' and others' if len(names) > 6 else ''}"
        for model, names in comparison.without_counterpart.items()
    ]
    text = "The models have different layers, which are matched by their order."
    return (f"{text} Without a counterpart in all others: {'; '.join(alone)}." if alone else text,)


# ---------------------------------------------------------------- sections


def _profile(comparison: Comparison) -> Section:
    values, bound = comparison.profile_agreement()
    known = [value for value in values[1:] if math.isfinite(value)]
    if not known:
        return Section(
            title=PROFILE, answer="No two models see patches of one size, so profiles cannot be compared."
        )
    first = comparison.models[0]
    span = f" at the end ({min(known):.2f} to {max(known):.2f} on the way)" if len(known) > 1 else ""
    answer = (
        f"The energy profile correlates with that of {first.name} at {known[-1]:.2f}{span}; unrelated profiles stay "
        f"within ±{bound:.2f}."
    )
    return Section(
        title=PROFILE,
        answer=answer,
        panels=(
            Panel(
                figure=profile_figure(comparison),
                shows="Amplitude of the first layer's filters along the patch components, from coarse to fine, each "
                "profile scaled to a maximum of 1. Dashed: random filters.",
                formulas=("energy", "components"),
            ),
        ),
    )


def profile_figure(comparison: Comparison) -> Figure:
    """Energy profiles of the models whose first layers see patches of one size."""
    first = comparison.models[0].profile
    assert first is not None
    alike = [
        (model.name, model.profile)
        for model in comparison.models
        if model.profile is not None and len(model.profile.amplitude) == len(first.amplitude)
    ]
    chosen = _spread(alike)
    null = (first.nulls / first.nulls.amax(1, keepdim=True)).mean(0)
    rows, middles = in_bands(torch.stack([*(profile.normalised for _, profile in chosen), null]))
    lines = [
        Curve(name=name, values=rows[i : i + 1], shade=_shade(i, len(chosen)))
        for i, (name, _) in enumerate(chosen)
    ]
    return curves(
        [*lines, Curve(name="random filters", values=rows[-1:], role="null")],
        title="Energy profiles of the first layer",
        alt=f"Amplitude against patch component for {len(chosen)} models and for random filters",
        x="patch component, by decreasing variance",
        y="amplitude, largest = 1",
        at=middles,
    )


def _sections(comparison: Comparison) -> list[Section]:
    """What was compared, question by question."""
    was_asked = any(model.regime is not None or model.no_regime for model in comparison.models)
    regime = [_regime(comparison)] if was_asked else []
    is_lazy = any(
        model.regime is not None and model.regime.kind == "lazy" for model in comparison.models[-1:]
    )
    rest = [_ansatz(comparison), _movement(comparison), _profile(comparison)]
    # worst first: what can be acted on
    return [_dead(comparison), *(regime if is_lazy else []), *rest, *([] if is_lazy else regime)]


def layer_table(comparison: Comparison) -> Table:
    """The layers of the last model, with the ranges of healthy networks and the correlations of the first model."""
    first, last = comparison.models[0], comparison.models[-1]
    names = [layer.name for layer in last.layers]
    readings = _readings(comparison, last)

    def column(model: ComparedModel, what: str) -> list[float]:
        # the correlation of the output layer is 1 by definition
        return [
            math.nan if layer.is_output and what != "movement" else layer.value(what)
            for layer in model.layers
        ]

    columns: dict[str, list[object]] = {
        "layer": [*names],
        "kind": [layer.kind for layer in last.layers],
        "filters": [layer.n_filters for layer in last.layers],
    }
    if last.n_dead:
        columns["dead"] = [len(layer.dead) for layer in last.layers]
    columns["moved"] = [*column(last, "movement")]
    columns |= healthy_column("moved", "movement", names, readings)
    if comparison.is_one_architecture and first is not last:
        columns[f"correlation, {first.name}"] = [round(value, 2) for value in column(first, "ansatz")]
    columns["correlation"] = [round(value, 2) for value in column(last, "ansatz")]
    columns["control"] = [round(value, 2) for value in column(last, "ansatz_null")]
    columns |= healthy_column("correlation", "ansatz", names, readings)
    has_ranges = any(name.endswith(", healthy") for name in columns)
    words = f"{CORRELATION_WORDS} Moved: distance from {comparison.reference}, in units of the size there."
    return Table(
        title=f"Layer by layer, {last.name}", columns=columns, words=words + HEALTHY_WORDS * has_ranges
    )


def _readings(comparison: Comparison, model: ComparedModel) -> tuple[Reading, ...]:
    """Numbers of a model beside those of healthy networks; movement only where training began at the reference."""
    summaries = [
        LayerSummary(name=layer.name, kind=layer.kind, shape=layer.shape, n_weights=math.prod(layer.shape))
        for layer in model.layers
    ]
    kinds = layer_kinds(summaries, {layer.name for layer in model.layers if layer.is_output})
    wanted = {"ansatz": "ansatz"} | ({"movement": "movement"} if comparison.has_own_initial else {})
    layers = tuple(
        LayerNumbers(
            name=layer.name,
            kind=kinds[layer.name][0],
            depth=kinds[layer.name][1],
            numbers={number: layer.value(what) for number, what in wanted.items()},
        )
        for layer in model.layers
    )
    side = max(comparison.image_shape[1:], default=0)
    return reference().readings(
        Measured(name=model.name, family="", group="", accuracy=model.accuracy, side=side, layers=layers)
    )


def _ansatz(comparison: Comparison) -> Section:
    measured = [model for model in comparison.models if math.isfinite(model.mean("ansatz"))]
    if not measured:
        return Section(
            title=ANSATZ, answer="Not measured: no model has a hidden layer that passes gradients on."
        )
    first, last = measured[0], measured[-1]
    values = [
        f"{model.mean('ansatz'):.2f} (control {model.mean('ansatz_null'):.2f})" for model in (first, last)
    ]
    answer = (
        f"Filters and gradients correlate at {values[0]} in {first.name} and {values[1]} in {last.name}, on average "
        "over hidden layers."
    )
    panels = [
        Panel(
            figure=ansatz_figure(comparison),
            shows="Correlation of the directions that filters respond to with those that change the outputs. Dashed: "
            "the same gradients, rotated at random; only the distance between the two was learned.",
            formulas=("ansatz",),
        ),
    ]
    if math.isfinite(last.mean("centred")):
        answer += (
            f" What was added to the weights since {comparison.reference} correlates with the gradients at "
            f"{last.mean('centred'):.2f} in {last.name} (control {last.mean('centred_null'):.2f})."
        )
        panels.append(
            Panel(
                figure=_with_null(comparison, "centred", title="Change of the weights against gradients"),
                shows="The centred correlation: the initial weights are subtracted from the filters, which removes "
                "what algebra alone makes them share with the gradients. Dashed: rotated gradients.",
                formulas=("ansatz",),
            )
        )
    return Section(title=ANSATZ, answer=answer, panels=tuple(panels))


def ansatz_figure(comparison: Comparison) -> Figure:
    """Correlation of filters and gradients of every model, mean over hidden layers, with its null."""
    return _with_null(comparison, "ansatz", title="Filters against gradients, mean over hidden layers")


def dead_figure(comparison: Comparison) -> Figure:
    """Share of dead filters of every model."""
    worst = max(comparison.models, key=lambda model: model.n_dead)
    first = [len(m.layers[0].dead) / m.layers[0].n_filters for m in comparison.models]
    figure = curves(
        [
            Curve(name="all layers", values=_row([_dead_share(m) for m in comparison.models])),
            Curve(name="first layer", values=_row(first), role="other"),
        ],
        title="Dead filters",
        alt=f"Share of dead filters in {len(comparison.models)} models, at most {worst.n_dead} filters",
        x="model",
        y="share of the filters",
        height=300,
    ).with_names(_names(comparison))
    return figure.with_columns({"dead filters": [model.n_dead for model in comparison.models]})


def _dead(comparison: Comparison) -> Section:
    layers = [
        (comparison.models.index(model), model, layer)
        for model in comparison.models
        for layer in model.layers
        if layer.dead
    ]
    if not layers:
        return Section(
            title=DEAD,
            answer=f"No. Every filter of every model responds to some of {_n_forward(comparison)}.",
        )
    counts = ", ".join(
        f"{model.n_dead} in {model.name}" for _, model in _spread(list(enumerate(comparison.models)), 4)
    )
    _, model, layer = max(layers, key=lambda row: (row[0], len(row[2].dead) / row[2].n_filters))
    numbers = ", ".join(map(str, layer.dead[:20])) + (", ..." if len(layer.dead) > 20 else "")
    answer = (
        f"Dead filters: {counts}. In {model.name}, layer {layer.name} has {len(layer.dead)} of {layer.n_filters}: "
        f"{numbers}. {_advice(comparison)}"
    )
    return Section(
        title=DEAD,
        answer=answer,
        panels=(
            Panel(
                figure=dead_figure(comparison),
                shows="Filters that respond to none of the images. A trained filter should not be here, so the null "
                "is 0.",
            ),
        ),
    )


def _n_forward(comparison: Comparison) -> str:
    return count(max(model.n_forward for model in comparison.models), "image")


def _advice(comparison: Comparison) -> str:
    n_images = max(model.n_forward for model in comparison.models if model.n_dead)
    if n_images < ENOUGH_IMAGES:
        return silence(n_images)
    first, last = comparison.models[0].n_dead, comparison.models[-1].n_dead
    if last > first and comparison.is_one_architecture:
        return f"{silence(n_images)} More died during training: try a lower learning rate or a warm-up."
    return f"{silence(n_images)} They can be pruned."


def _dead_share(model: ComparedModel) -> float:
    return model.n_dead / max(1, sum(layer.n_filters for layer in model.layers))


def movement_figure(comparison: Comparison) -> Figure:
    """Mean distance of every model from the reference, with that of unrelated weights."""
    values = ([m.mean("movement") for m in comparison.models], [_unrelated(m) for m in comparison.models])
    return curves(
        [
            Curve(name="mean over layers", values=_row(values[0])),
            Curve(name="unrelated weights of the same size", values=_row(values[1]), role="null"),
        ],
        title=f"Distance from {comparison.reference}",
        alt=f"Mean relative distance of the layers of {len(comparison.models)} models, with that of unrelated weights",
        x="model",
        y="distance / initial size",
        height=300,
    ).with_names(_names(comparison))


def _movement(comparison: Comparison) -> Section:
    last = next((m for m in reversed(comparison.models) if math.isfinite(m.mean("movement"))), None)
    if last is None or all(
        m.mean("movement") == 0 for m in comparison.models if math.isfinite(m.mean("movement"))
    ):
        return Section(
            title=MOVED, answer=f"No model shares layers with {comparison.reference}, or none moved."
        )
    changes = [layer.change for layer in last.layers if layer.change is not None]
    most, least = (pick(changes, key=lambda change: change.distance) for pick in (max, min))
    answer = (
        f"From {comparison.reference} to {last.name}, layer {most.name} moved most, by {most.distance:.2f} times its "
        f"initial size, and layer {least.name} least ({least.distance:.2f})."
    )
    return Section(
        title=MOVED,
        answer=answer,
        panels=(
            Panel(
                figure=movement_figure(comparison),
                shows="Distance of the weights in units of their initial size. Weights at the dashed line keep no "
                "trace of where they began.",
                formulas=("movement",),
            ),
        ),
    )


def _unrelated(model: ComparedModel) -> float:
    values = [layer.change.unrelated for layer in model.hidden if layer.change is not None]
    return sum(values) / len(values) if values else math.nan


def regime_figure(comparison: Comparison) -> Figure:
    """Score from lazy to feature learning of every model that has one, with random steps."""
    known = [model.regime for model in comparison.models]
    scores, nulls = (
        [math.nan if one is None else getattr(one, name) for one in known] for name in ("score", "null")
    )
    return curves(
        [
            Curve(name="score", values=_row(scores)),
            Curve(name="random steps of the same length", values=_row(nulls), role="null"),
        ],
        title="Lazy or learning?",
        alt=f"Score from 0, lazy, to 1, feature learning, of {sum(one is not None for one in known)} models, with "
        "random steps",
        x="model",
        y="0 lazy, 1 feature learning",
        height=300,
    ).with_names(_names(comparison))


def _regime(comparison: Comparison) -> Section:
    known = [(model, model.regime) for model in comparison.models if model.regime is not None]
    if not known:
        reasons = dict.fromkeys(model.no_regime.rstrip(".") for model in comparison.models[-1:])
        return Section(title=LAZY, answer=f"Not known: {'; '.join(reasons)}.")
    last, regime = known[-1]
    return Section(
        title=LAZY,
        answer=f"{last.name}: {regime.sentence()}",
        panels=(
            Panel(
                figure=regime_figure(comparison),
                shows=f"How far each model left the linearisation at {comparison.reference}: mean of the rotation of "
                "the tangent kernel and of the change of outputs that is not linear in the weights. Dashed: random "
                "steps of the same length.",
                formulas=("regime", "linearisation"),
            ),
        ),
    )


# ---------------------------------------------------------------- figures


def _with_null(comparison: Comparison, what: str, *, title: str) -> Figure:
    """A mean over hidden layers for every model, with its null."""
    values, nulls = ([model.mean(name) for model in comparison.models] for name in (what, f"{what}_null"))
    return curves(
        [
            Curve(name="filters and gradients", values=_row(values)),
            Curve(name="control: rotated gradients", values=_row(nulls), role="null"),
        ],
        title=title,
        alt=f"Mean correlation over hidden layers of {len(values)} models, with its null",
        x="model",
        y="Pearson correlation",
        height=300,
    ).with_names(_names(comparison))


def _row(values: Sequence[float]) -> torch.Tensor:
    return torch.tensor([list(values)], dtype=torch.float64)


def _names(comparison: Comparison) -> list[str]:
    return [model.name for model in comparison.models]


def _shade(index: int, n: int) -> float:
    return index / max(n - 1, 1)


def _spread(items: Sequence[T], most: int = MOST_CURVES) -> list[T]:
    """A few of many, evenly spread, the first and the last among them."""
    if len(items) <= most:
        return list(items)
    return [items[round(i * (len(items) - 1) / (most - 1))] for i in range(most)]
