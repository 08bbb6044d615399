"""Sections on the feature ansatz, shared by the tour and by the page of one's own model."""

import math

import torch
from torch import Tensor

from firstlight.figures import Dots, Figure, dots, picture_grid
from firstlight.insights import Inspection
from firstlight.measures.feature_ansatz import Ansatz, AnsatzRow, Eigenvectors, LayerMaps
from firstlight.measures.feature_ansatz.ansatz import CROSSED, FILTERS, INITIAL, TRAINED
from firstlight.report.page import Answer, Panel, Section
from firstlight.tour import AnsatzTour

FOLLOW = "Do the filters follow the gradients?"
USUAL = 0.9  # what the paper finds in most layers of trained networks


def ansatz_answers(result: AnsatzTour) -> tuple[Answer, ...]:
    """Whether the ansatz holds."""
    return (Answer(question="Does the feature ansatz hold?", answer=verdict(result.ansatz), section=FOLLOW),)


def ansatz_sections(result: AnsatzTour | Inspection) -> tuple[Section, ...]:
    """Do filters follow gradients, what are the features, and where do the layers look."""
    sections = [_correlation(result.ansatz)]
    if result.eigenvectors:
        sections.append(_features(result.eigenvectors))
    if result.maps:
        sections.append(_maps(result.maps, result.shown))
    return tuple(sections)


def verdict(ansatz: Ansatz) -> str:
    """One sentence on how far the ansatz holds beyond its null."""
    rows = ansatz.pair(TRAINED, hidden=True)
    if not rows:
        return "No hidden layer could be compared."
    above = sum(row.is_above_null for row in rows)
    mean = sum(row.pearson for row in rows) / len(rows)
    null = sum(float(row.null_pearson.mean()) for row in rows) / len(rows)
    word = "more than" if mean > null + 0.02 else "no more than" if mean > null - 0.02 else "less than"
    return (
        f"Filters and gradients correlate at {mean:.2f} on average over {count(len(rows), 'hidden layer')}, {word} "
        f"gradients turned in random directions would ({null:.2f}); {above} of {len(rows)} lie above their null."
    )


def reading(row: AnsatzRow) -> str:
    """What one layer's correlation says, in plain words."""
    if row.is_output:
        return f"Layer {row.layer} gives the outputs; its correlation is 1 by definition."
    low, high = float(row.null_pearson.min()), float(row.null_pearson.max())
    sure = f" ± {max(2 * row.pearson_error, 0.01):.2f}" if math.isfinite(row.pearson_error) else ""
    if row.pearson > high:
        against = "above what chance directions give: its filters point where the outputs are sensitive"
    elif row.pearson < low:
        against = "below what chance directions give: its filters avoid what the outputs are sensitive to"
    else:
        against = "what chance directions give too: nothing here shows learning"
    usual = (
        "as trained networks usually show"
        if row.pearson > USUAL
        else "below the 0.9 of most trained networks"
    )
    return f"Layer {row.layer}: {row.pearson:.2f}{sure}, {usual}; {against} ({low:.2f} to {high:.2f})."


def _correlation(found: Ansatz) -> Section:
    rows = found.pair(TRAINED, hidden=True)
    ranked = sorted(rows, key=lambda row: row.excess)
    telling = rows if len(rows) <= 4 else (ranked[-1], ranked[-2], ranked[1], ranked[0])
    return Section(
        title=FOLLOW,
        answer=verdict(found) + " " + " ".join(reading(row) for row in telling),
        panels=(
            Panel(
                figure=_correlation_figure(found),
                shows="For every layer the correlation of two matrices over its patches: which directions its filters "
                "respond to, and which directions change the model's outputs. The grey bars are the null: the same "
                "gradients turned at random. Only what rises above them was learned.",
                published="Above 0.9 in most layers of trained networks, lower before training; no null was shown.",
                measured=_numbers(found),
                formulas=("ansatz",),
            ),
            Panel(
                figure=_isotropy_figure(found),
                shows="Why the correlation is high even before training: both matrices hold the filters themselves, so "
                "they agree by algebra as far as the gradients have no preferred direction (1 on this axis).",
                published="Not shown in the papers.",
                measured=_isotropy(found),
                formulas=("isotropy", "ansatz"),
            ),
        ),
    )


def _isotropy(found: Ansatz) -> str:
    rows, starts = (found.pair(pair, hidden=True) for pair in (TRAINED, INITIAL))
    parts = [
        f"{sum(row.isotropy for row in some) / len(some):.2f} {when}"
        for some, when in ((rows, "after training"), (starts, "at the start"))
        if some
    ]
    return f"On average over hidden layers {', '.join(parts)}." if parts else "No hidden layer."


def _numbers(found: Ansatz) -> str:
    text = f"{count(found.n_images, 'image')}, {found.method}."
    for pair in (TRAINED, INITIAL, CROSSED, FILTERS):
        values = found.values(pair, hidden=True)
        values = values[values.isfinite()]
        if len(values):
            text += f" {pair.capitalize()}: {values.mean():.2f} ({values.min():.2f} to {values.max():.2f})."
    if found.skipped:
        listed = "; ".join(f"{name} ({reason})" for name, reason in list(found.skipped.items())[:3])
        text += f" Left out: {listed}{' and others' if len(found.skipped) > 3 else ''}."
    return text


def _interval(rows: tuple[AnsatzRow, ...]) -> list[Tensor]:
    """Mean and mean plus or minus two standard errors."""
    found = []
    for row in rows:
        error = row.pearson_error if math.isfinite(row.pearson_error) else 0.0
        found.append(torch.tensor([row.pearson - 2 * error, row.pearson, row.pearson + 2 * error]))
    return found


def _correlation_figure(found: Ansatz) -> Figure:
    rows = found.pair(TRAINED)
    names = [row.layer for row in rows]
    series = [
        Dots.of("null: gradients turned at random", [row.null_pearson for row in rows], role="null"),
        Dots.of(TRAINED, _interval(rows)),
    ]
    starts = {row.layer: row for row in found.pair(INITIAL)}
    if all(name in starts for name in names) and names:
        series.append(Dots.of(INITIAL, _interval(tuple(starts[name] for name in names)), role="initial"))
    figure = dots(
        names,
        series,
        title="Filters against gradients, layer by layer",
        alt=f"Pearson correlation for {len(names)} layers, trained and at the start, with the null of each",
        x="layer",
        y="Pearson correlation",
    )
    return figure.with_columns(
        {
            "cosine": [row.cosine for row in rows],
            "cosine, null": [float(row.null_cosine.mean()) for row in rows],
            "standard error": [_finite(row.pearson_error) for row in rows],
            "filters": [row.n_filters for row in rows],
            "patch size": [row.patch_size for row in rows],
        }
    )


def _isotropy_figure(found: Ansatz) -> Figure:
    rows = found.pair(TRAINED)
    series = [Dots.of("trained", [torch.tensor([row.isotropy]) for row in rows])]
    starts = found.pair(INITIAL)
    if len(starts) == len(rows):
        series.append(Dots.of("start", [torch.tensor([row.isotropy]) for row in starts], role="initial"))
    return dots(
        [row.layer for row in rows],
        series,
        title="How much the gradients prefer directions",
        alt="Cosine of the covariance of back-propagated gradients with the identity, layer by layer",
        x="layer",
        y="cosine (Q, identity)",
        height=320,
    )


def _features(found: tuple[Eigenvectors, ...]) -> Section:
    by_kind = {one.kind: one for one in found}
    words = {"features": "feature matrix", "gradients": "gradient outer product"}
    panels = tuple(
        Panel(
            figure=picture_grid(
                by_kind[kind].vectors.float(),
                title=f"Leading eigenvectors of the {words[kind]} of layer {by_kind[kind].name}",
                alt=f"{len(by_kind[kind].vectors)} small patterns, the most important first",
                columns=len(by_kind[kind].vectors),
                zoom=max(1, 80 // max(by_kind[kind].vectors.shape[2:])),
            ),
            shows=f"The first holds {by_kind[kind].values[0]:.0%} of the whole, all shown "
            f"{by_kind[kind].values.sum():.0%}. Middle grey is zero; the sign has no meaning.",
            published="Leading eigenvectors of feature matrices look like oriented edge detectors.",
            measured=f"Share that answers flat patches: "
            f"{', '.join(f'{v:.0%}' for v in by_kind[kind].constant.tolist())}.",
            formulas=("eigenvectors",),
        )
        for kind in words
        if kind in by_kind
    )
    leading = by_kind.get("gradients", found[0])
    flat = float(leading.constant[0])
    edges = int((leading.constant < 0.1).sum())
    return Section(
        title="Which patterns matter to the first layer?",
        answer=(
            "The pattern that moves the outputs most "
            + (
                "averages: it answers flat patches"
                if flat > 0.5
                else "compares: it is nearly blind to flat patches"
            )
            + f" ({flat:.0%} of it is constant). {edges} of the {len(leading.vectors)} leading patterns ignore flat "
            "patches, as an edge detector must. Such patterns also appear with shuffled labels, from the statistics "
            "of images alone; they are no proof of learning."
        ),
        panels=panels,
    )


def _maps(found: tuple[LayerMaps, ...], shown: Tensor) -> Section:
    first = found[0]
    agree = [float(one.agreement.mean()) for one in found]
    panels = [
        Panel(
            figure=picture_grid(
                _row_pair(one, shown),
                title=f"Layer {one.name}",
                alt="Images, then what the filters and what the gradients of the layer look at in them",
                signed=False,
                columns=len(shown),
                zoom=max(1, 96 // max(shown.shape[2:])),
            ),
            shows="Top: the images. Middle: where its filters respond (feature matrix). Bottom: where its patches "
            "matter to the outputs (gradients). Bright is strong.",
            measured=f"The two maps correlate at {one.agreement.mean():.2f}; with the edges of the image (Sobel) at "
            f"{one.sobel.mean():.2f} and {one.gradient_sobel.mean():.2f}.",
            published="Both matrices highlight the same structures at every depth; early layers detect edges.",
            formulas=("maps",),
        )
        for one in found
    ]
    is_edge = float(first.gradient_sobel.mean()) > 0.5
    return Section(
        title="Where do the layers look?",
        answer=f"Filters and gradients look at the same places (correlation {min(agree):.2f} to {max(agree):.2f}). The "
        f"first layer {'responds like an edge detector' if is_edge else 'is no plain edge detector'}: what matters to "
        f"the outputs correlates at {first.gradient_sobel.mean():.2f} with the strength of edges.",
        panels=tuple(panels),
    )


def _row_pair(one: LayerMaps, shown: Tensor) -> Tensor:
    """Images, feature maps and gradient maps as three rows of equal pictures."""
    side = shown.shape[2:]
    colour = shown.float() if shown.shape[1] == 3 else shown[:, :1].float().expand(-1, 3, -1, -1)
    rows = [colour]
    for maps in (one.features, one.gradients):
        low, high = maps.amin((1, 2), keepdim=True), maps.amax((1, 2), keepdim=True)
        scaled = ((maps - low) / (high - low).clamp(min=1e-300)).float()[:, None]
        enlarged = torch.nn.functional.interpolate(scaled, size=tuple(side), mode="nearest")
        rows.append(enlarged.expand(-1, 3, -1, -1))
    return torch.cat(rows)


def count(n: int, noun: str) -> str:
    """A number with its noun.

    Examples
    --------
    >>> count(1, "image"), count(2, "image")
    ('1 image', '2 images')
    """
    return f"{n} {noun}" if n == 1 else f"{n} {noun}s"


def _finite(value: float) -> float | str:
    return value if math.isfinite(value) else "unknown"
