"""The head of the page: at most three findings, each with a picture and what to do, worst first."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import torch

from firstlight.measures.feature_ansatz.ansatz import TRAINED
from firstlight.measures.feature_ansatz.filter_activity import ENOUGH_IMAGES
from firstlight.networks.reference import Reading
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from firstlight.pages.page import Highlight, Table
from firstlight.questions.inspect.page_ansatz import FOLLOW, ansatz_advice, ansatz_verdict, count
from firstlight.questions.inspect.page_first_layer import LOOKS, coarse_share, filters_figure
from firstlight.questions.inspect.result import Inspection
from firstlight.questions.regime.page import LAZY, regime_figure

MOST_FINDINGS = 3
MOST_BARS = 6  # layers in a small picture, the worst of them
STILL = 0.1  # of its initial size: a layer that moved less hardly moved
FAULTS = "Are there dead or repeated filters?"
MOVED = "How far did every layer move?"


CORRELATION_WORDS = "Correlation: of the filters with the gradients, beside rotated gradients as control."
TABLE_WORDS = (
    f"Directions: how many the filters really use (effective rank). {CORRELATION_WORDS} Moved: distance from the "
    "initial weights, in units of their size."
)
HEALTHY_WORDS = " Healthy: the range over healthy networks, in layers of the same kind and relative depth."


class _Finding(NamedTuple):
    """A finding and how bad it is: 3 is a fault, 2 should be looked into, below 1 is good news."""

    badness: float
    highlight: Highlight


def highlights(inspection: Inspection) -> tuple[Highlight, ...]:
    """The worst findings first; where nothing is wrong, what is right."""
    findings = [
        *_dead(inspection),
        *_repeated(inspection),
        *_still(inspection),
        *_following(inspection),
        *_lazy(inspection),
        *_first_layer(inspection),
    ]
    findings.sort(key=lambda finding: -finding.badness)
    return tuple(finding.highlight for finding in findings[:MOST_FINDINGS])


def _dead(inspection: Inspection) -> Iterator[_Finding]:
    faults = [fault for fault in inspection.faults if fault.dead]
    if not faults or faults[0].n_images < ENOUGH_IMAGES:  # silence on fewer proves little
        return
    n_dead = sum(len(fault.dead) for fault in faults)
    total = sum(fault.n_filters for fault in inspection.faults)
    words = f"No activation in {faults[0].n_images:,} images. " + (
        "A whole layer is silent: look at its weights and at those behind it."
        if inspection.silent
        else "Prune them; if there are many, lower the learning rate."
    )
    yield _Finding(
        3 + n_dead / total,
        Highlight(
            title=f"{n_dead:,} of {total:,} filters are dead",
            words=words,
            figures=(_bars({f.name: len(f.dead) / f.n_filters for f in faults}, "share of dead filters"),),
            section=FAULTS,
        ),
    )


def _repeated(inspection: Inspection) -> Iterator[_Finding]:
    shares = {
        f.name: f.n_superfluous / f.n_filters
        for f in inspection.faults
        if f.n_superfluous and f.name not in inspection.outputs
    }
    if not shares:
        return
    worst = max(shares, key=lambda name: shares[name])
    n = sum(f.n_superfluous for f in inspection.faults if f.name in shares)
    yield _Finding(
        2 + shares[worst],
        Highlight(
            title=f"{count(n, 'filter')} repeat{'s' * (n == 1)} another",
            words=f"Most of all in layer {worst} ({shares[worst]:.0%}), which could be narrower.",
            figures=(_bars(shares, "share of repeated filters"),),
            section=FAULTS,
        ),
    )


def _still(inspection: Inspection) -> Iterator[_Finding]:
    """Layers that training hardly moved, or how far all of them went."""
    if not inspection.has_own_initial or not inspection.changes:
        return
    by_name = {change.name: change.distance for change in inspection.changes}
    still = {name: value for name, value in by_name.items() if value < STILL}
    most, least = (pick(by_name, key=lambda name: by_name[name]) for pick in (max, min))
    if still:
        title = f"{count(len(still), 'layer')} of {len(by_name)} hardly moved"
        words = (
            f"By less than {STILL:.0%} of the initial size. Try freezing them, or raise the learning rate."
        )
    else:
        title = "Training moved every layer"
        words = (
            f"Layer {most} moved most ({by_name[most]:.1f} times its initial size), layer {least} least "
            f"({by_name[least]:.2f})."
        )
    yield _Finding(
        2 if still else 0.4,
        Highlight(
            title=title,
            words=words,
            figures=(_bars(still or by_name, "distance / initial size"),),
            section=MOVED,
        ),
    )


def _following(inspection: Inspection) -> Iterator[_Finding]:
    verdict = ansatz_verdict(inspection.ansatz)
    if verdict is None:
        return
    titles = {
        "follow": (0.8, "The filters follow the gradients"),
        "partly": (1.2, "The filters follow the gradients only in part"),
        "mixed": (1.4, "Some layers follow the gradients, some avoid them"),
        "not": (1.6, "The filters do not follow the gradients"),
    }
    badness, title = titles[verdict]
    rows = [row for row in inspection.ansatz.pair(TRAINED, hidden=True) if len(row.null_pearson)]
    rows.sort(key=lambda row: row.excess)
    figure = dots(
        [row.layer for row in rows[-MOST_BARS:]],
        [
            Dots.of(
                "control: rotated gradients", [row.null_pearson for row in rows[-MOST_BARS:]], role="null"
            ),
            Dots.of("this model", [torch.tensor([row.pearson]) for row in rows[-MOST_BARS:]]),
        ],
        title=title,
        alt=f"Correlation of filters and gradients in {min(len(rows), MOST_BARS)} layers, beside rotated gradients",
        y="correlation",
        height=240,
    ).small()
    yield _Finding(
        badness,
        Highlight(title=title, words=ansatz_advice(inspection.ansatz), figures=(figure,), section=FOLLOW),
    )


def _lazy(inspection: Inspection) -> Iterator[_Finding]:
    result = inspection.regime
    if result is None or result.kind == "cannot tell":
        return
    words = (
        f"{result.score:.2f} between lazy (0) and feature learning (1); random steps give {result.null:.2f}."
    )
    if result.kind == "lazy":
        words += (
            " A linear model around the initial weights would do: try a higher rate or a narrower network."
        )
    yield _Finding(
        1.8 if result.kind == "lazy" else 0.6,
        Highlight(
            title=f"Training was {result.kind}",
            words=words,
            figures=(regime_figure(result).small(),),
            section=LAZY,
        ),
    )


def _first_layer(inspection: Inspection) -> Iterator[_Finding]:
    profile = inspection.profile
    if profile is None:
        return
    coarse = coarse_share(profile)
    yield _Finding(
        0.5,
        Highlight(
            title="What the first layer looks at",
            words=f"The coarsest third of the patch patterns holds {coarse:.0%} of its energy (evenly spread: 33%).",
            figures=(filters_figure(profile, inspection.faults, most=32),),
            section=LOOKS,
        ),
    )


def _bars(values: dict[str, float], y: str) -> Figure:
    worst = sorted(values, key=lambda name: -values[name])[:MOST_BARS]
    return dots(
        worst,
        [Dots.of(y, [torch.tensor([values[name]]) for name in worst])],
        title=y.capitalize(),
        alt=f"{y.capitalize()} of {len(worst)} layers",
        y=y,
        height=240,
    ).small()


def healthy_column(
    what: str, number: str, names: Sequence[str], readings: Sequence[Reading]
) -> dict[str, list[object]]:
    """A column right of `what` with the ranges of healthy networks, if some layer has a range of `number`."""
    ranges = {
        r.layer: f"{r.range.low:.2g}–{r.range.high:.2g}" for r in readings if r.range and r.number == number
    }
    return {f"{what}, healthy": [ranges.get(name, "–") for name in names]} if ranges else {}


def layer_table(inspection: Inspection, readings: Sequence[Reading] = ()) -> Table:
    """One row per layer; what was not measured is a dash, and `readings` give the ranges of healthy networks."""
    names = [layer.name for layer in inspection.layers]
    faults = {fault.name: fault for fault in inspection.faults}
    changes = {change.name: change for change in inspection.changes}
    rows = {row.layer: row for row in inspection.ansatz.pair(TRAINED)}
    hidden = {name: rows[name] for name in names if name in rows and not rows[name].is_output}

    def column(values: Mapping[str, float]) -> list[float]:
        return [values.get(name, math.nan) for name in names]

    columns: dict[str, list[object]] = {
        "layer": list(names),
        "kind": [layer.kind for layer in inspection.layers],
        "filters": [*column({name: fault.n_filters for name, fault in faults.items()})],
    }
    for what, counts in (
        ("dead", {name: len(fault.dead) for name, fault in faults.items()}),
        ("repeated", {name: fault.n_superfluous for name, fault in faults.items()}),
    ):
        if any(counts.values()):  # a column of zeros is one sentence
            columns[what] = [*column(counts)]
    if inspection.has_own_initial:
        columns["moved"] = [*column({name: change.distance for name, change in changes.items()})]
        columns |= healthy_column("moved", "movement", names, readings)
    columns["directions"] = [*column({name: change.effective_rank for name, change in changes.items()})]
    if inspection.ansatz.rows:
        rounded = {
            "correlation": {name: row.pearson for name, row in hidden.items()},
            "±": {name: max(2 * row.pearson_error, 0.01) for name, row in hidden.items()},
            "control": {n: float(r.null_pearson.mean()) for n, r in hidden.items() if len(r.null_pearson)},
        }
        for what, values in rounded.items():
            columns[what] = [round(value, 2) for value in column(values)]
        columns |= healthy_column("correlation", "ansatz", names, readings)
    has_ranges = any(name.endswith(", healthy") for name in columns)
    return Table(title="Layer by layer", columns=columns, words=TABLE_WORDS + HEALTHY_WORDS * has_ranges)
