"""Sections on the feature ansatz, shared by the tour and by the page of one's own model."""

import math
from collections.abc import Mapping, Sequence

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.shapes import Images
from firstlight.measures.feature_ansatz.ansatz import CROSSED, FILTERS, INITIAL, TRAINED, Ansatz, AnsatzRow
from firstlight.measures.feature_ansatz.layer_maps import Eigenvectors, LayerMaps
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.pictures import picture_grid
from firstlight.pages.page import Answer, Panel, Section, beyond_chance, chance_of_ignoring_flat

FOLLOW = "Do the filters follow the gradients?"
CLEAR = 0.5  # of the way from the null to 1: below, most of a correlation may be the null's
BLIND = 0.1  # share of a pattern along constant channels below which it ignores flat patches


def ansatz_answers(ansatz: Ansatz) -> tuple[Answer, ...]:
    """Whether the ansatz holds."""
    return (Answer(question="Does the feature ansatz hold?", answer=ansatz_sentence(ansatz), section=FOLLOW),)


def ansatz_sections(
    ansatz: Ansatz,
    *,
    eigenvectors: Sequence[Eigenvectors] = (),
    maps: Sequence[LayerMaps] = (),
    shown: Float[Tensor, "n *shape"],
    calls: Mapping[str, int] | None = None,
) -> tuple[Section, ...]:
    """Do filters follow gradients, what are the features, and where do the layers look.

    Parameters
    ----------
    ansatz : Ansatz
        Correlations of every layer, with their nulls.
    eigenvectors : sequence of Eigenvectors, default ()
        Leading ones of the first convolution.
    maps : sequence of LayerMaps, default ()
        What the convolutions look at in `shown`.
    shown : Tensor of shape (n, ...)
        A few images, on which `maps` were computed.
    calls : mapping of str to int, optional
        How often an image meets each layer; by default once.
    """
    sections = [_correlation(ansatz)]
    if eigenvectors:
        sections.append(_features(eigenvectors))
    if maps:
        sections.append(_maps(maps, shown, calls or {}))
    return tuple(sections)


def ansatz_sentence(ansatz: Ansatz) -> str:
    """How far the ansatz holds beyond its null, with what chance would give over so many layers."""
    rows = _judged(ansatz)
    if not rows:
        return "No hidden layer could be compared."
    mean = sum(row.pearson for row in rows) / len(rows)
    null = sum(float(row.null_pearson.mean()) for row in rows) / len(rows)
    word = {1: "more than", 0: "no more than", -1: "less than"}[_direction(rows)]
    return (
        f"Filters and gradients correlate at {mean:.2f} on average over {count(len(rows), 'hidden layer')}, {word} "
        f"rotated gradients ({null:.2f}). {_beaten(rows)}"
    )


def _beaten(rows: Sequence[AnsatzRow]) -> str:
    """How many layers lie outside all their controls, beside what chance gives."""
    (above, below), n = _outside(rows), len(rows)
    expected = f"{_chance(rows) * n:.1f}"
    if above == n > 1:
        return f"All {n} layers beat every rotated control; {expected} expected by chance."
    return (
        f"{above} of {n} {'layer beats' if n == 1 else 'layers beat'} every rotated control and {below} stay below all "
        f"of them; {expected} of each expected by chance."
    )


def ansatz_verdict(ansatz: Ansatz) -> str | None:
    """Whether filters "follow" the gradients, follow "partly", "not", or are "mixed"; None if no layer can tell."""
    rows = _judged(ansatz)
    if not rows:
        return None
    above, below = (beyond_chance(n, n=len(rows), p=_chance(rows)) for n in _outside(rows))
    if above and below:
        return "mixed"
    if not above:
        return "not"
    return "follow" if _way(rows) >= CLEAR else "partly"


def _way(rows: Sequence[AnsatzRow]) -> float:
    """How far the correlations are on the way from their controls to 1."""
    null = sum(float(row.null_pearson.mean()) for row in rows) / len(rows)
    return sum(row.excess for row in rows) / len(rows) / max(1 - null, 1e-9)


def ansatz_advice(ansatz: Ansatz) -> str:
    """What to make of the correlation."""
    share = _way(rows) if (rows := _judged(ansatz)) else 0.0
    return {
        None: "",
        "mixed": "Judge it layer by layer: in some the filters follow the gradients, in others they avoid them.",
        "follow": "Its filters may be read as the features that it uses.",
        "partly": f"Their correlation goes only {share:.0%} of the way from the control to 1: do not read them as the "
        "features.",
        "not": "Do not read its filters as the features that it uses: random ones would correlate as much.",
    }[ansatz_verdict(ansatz)]


def _judged(ansatz: Ansatz) -> tuple[AnsatzRow, ...]:
    return tuple(row for row in ansatz.pair(TRAINED, hidden=True) if len(row.null_pearson))


def _outside(rows: Sequence[AnsatzRow]) -> tuple[int, int]:
    """Number of layers above and below all draws of their null."""
    return (
        sum(row.pearson > float(row.null_pearson.max()) for row in rows),
        sum(row.pearson < float(row.null_pearson.min()) for row in rows),
    )


def _chance(rows: Sequence[AnsatzRow]) -> float:
    """Probability that a layer lies above all its draws if nothing was learned: all orders are equally likely."""
    return 1 / (1 + min(len(row.null_pearson) for row in rows))


def _direction(rows: Sequence[AnsatzRow]) -> int:
    """1 if more layers lie above their nulls than chance allows over all of them, -1 below, 0 neither."""
    above, below = _outside(rows)
    if beyond_chance(above, n=len(rows), p=_chance(rows)):
        return 1
    return -1 if beyond_chance(below, n=len(rows), p=_chance(rows)) else 0


def _correlation(ansatz: Ansatz) -> Section:
    if not ansatz.pair(TRAINED, hidden=True):
        return Section(title=FOLLOW, answer=ansatz_sentence(ansatz))
    return Section(
        title=FOLLOW,
        answer=ansatz_sentence(ansatz),
        panels=(
            Panel(
                figure=correlation_figure(ansatz),
                shows="For every layer the correlation of two matrices over its patches: which directions its filters "
                "respond to, and which directions change the model's outputs. The grey bars are the null of the mark "
                "beside them: the same gradients, rotated at random. Only what rises above them was learned. The "
                "output layer is left out: its correlation is 1 by definition.",
                published="Above 0.9 in most layers of trained networks, lower before training; no null was shown.",
                measured=_numbers(ansatz),
                formulas=("ansatz",),
            ),
            Panel(
                figure=isotropy_figure(ansatz),
                shows="Why the correlation is high even before training: both matrices contain the filters, so algebra "
                "alone makes them agree to the extent that the gradients have no preferred direction (1 on this axis).",
                published="Not shown in the papers.",
                measured=_isotropy(ansatz),
                formulas=("isotropy", "ansatz"),
            ),
        ),
    )


def _isotropy(ansatz: Ansatz) -> str:
    rows, before = (ansatz.pair(pair, hidden=True) for pair in (TRAINED, INITIAL))
    parts = [
        f"{sum(row.isotropy for row in some) / len(some):.2f} {when}"
        for some, when in ((rows, "after training"), (before, "before"))
        if some
    ]
    return f"On average over hidden layers {', '.join(parts)}." if parts else "No hidden layer."


def _numbers(ansatz: Ansatz) -> str:
    text = f"{count(ansatz.n_images, 'image')}, {ansatz.method}."
    for pair in (TRAINED, INITIAL, CROSSED, FILTERS):
        values = ansatz.values(pair, hidden=True)
        values = values[values.isfinite()]
        if len(values):
            text += f" {pair.capitalize()}: {values.mean():.2f} ({values.min():.2f} to {values.max():.2f})."
    if ansatz.skipped:
        listed = "; ".join(f"{name} ({reason})" for name, reason in list(ansatz.skipped.items())[:3])
        text += f" Left out: {listed}{' and others' if len(ansatz.skipped) > 3 else ''}."
    return text


def _interval(rows: tuple[AnsatzRow, ...]) -> list[Tensor]:
    """Mean and mean plus or minus two standard errors."""
    intervals = []
    for row in rows:
        error = row.pearson_error if math.isfinite(row.pearson_error) else 0.0
        intervals.append(torch.tensor([row.pearson - 2 * error, row.pearson, row.pearson + 2 * error]))
    return intervals


def correlation_figure(ansatz: Ansatz) -> Figure:
    """Correlation of filters and gradients by layer, each network before its own null."""
    rows = ansatz.pair(
        TRAINED, hidden=True
    )  # the output layer is at 1 by definition and would squash the rest
    names = [row.layer for row in rows]
    initial = {row.layer: row for row in ansatz.pair(INITIAL)}
    pairs = [(TRAINED, "trained", rows)]
    if names and all(name in initial for name in names):
        pairs.append((INITIAL, "initial", tuple(initial[name] for name in names)))
    series = []
    for place, (pair, role, some) in enumerate(pairs):
        # side by side: each network stands in front of the null that was drawn from its own gradients
        shift = 0.0 if len(pairs) == 1 else (-0.2, 0.2)[place]
        null = [row.null_pearson for row in some]
        series += [
            Dots.of(f"null, {role}: rotated gradients", null, role="null", shift=shift),
            Dots.of(pair, _interval(some), role=role, shift=shift),
        ]
    figure = dots(
        names,
        series,
        title="Filters against gradients, layer by layer",
        alt=f"Pearson correlation for {len(names)} layers, trained and initial, each with its null",
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


def isotropy_figure(ansatz: Ansatz) -> Figure:
    """How far the gradients have no preferred direction, by layer."""
    rows = ansatz.pair(TRAINED, hidden=True)
    series = [Dots.of("trained", [torch.tensor([row.isotropy]) for row in rows])]
    before = ansatz.pair(INITIAL, hidden=True)
    if len(before) == len(rows):
        series.append(Dots.of("initial", [torch.tensor([row.isotropy]) for row in before], role="initial"))
    return dots(
        [row.layer for row in rows],
        series,
        title="How much the gradients prefer directions",
        alt="Cosine of the covariance of back-propagated gradients with the identity, layer by layer",
        x="layer",
        y="cosine (Q, identity)",
        height=320,
    )


def _features(vectors: Sequence[Eigenvectors]) -> Section:
    by_kind = {one.kind: one for one in vectors}
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
            measured=f"Share that responds to flat patches: "
            f"{', '.join(f'{v:.0%}' for v in by_kind[kind].constant.tolist())}.",
            formulas=("eigenvectors",),
        )
        for kind in words
        if kind in by_kind
    )
    return Section(
        title="Which patterns matter to the first layer?",
        answer=_pattern_sentence(by_kind.get("gradients", vectors[0])),
        panels=panels,
    )


def _pattern_sentence(leading: Eigenvectors) -> str:
    """Whether the leading patterns average or compare, beside random patterns of the same size."""
    flat, n = float(leading.constant[0]), len(leading.vectors)
    blind = int((leading.constant < BLIND).sum())
    p = chance_of_ignoring_flat(tuple(leading.vectors.shape[1:]), share=BLIND)
    first = (
        "averages: it responds to flat patches"
        if flat > 0.5
        else "compares: it nearly ignores flat patches"
        if flat < BLIND
        else "does both, averaging and comparing"
    )
    text = (
        f"The pattern that moves the outputs most {first} ({flat:.0%} of it is constant). {blind} of the {n} leading "
        f"patterns ignore flat patches (less than {BLIND:.0%} constant); of random patterns of this size {p * n:.1f} "
        "would"
    )
    if not beyond_chance(blind, n=n, p=p):
        return f"{text}, so nothing here points to edge detectors."
    return (
        f"{text}. They compare pixels, as an edge detector must. Such patterns also appear with shuffled labels, from "
        "the statistics of images alone; they are no proof of learning."
    )


def _maps(maps: Sequence[LayerMaps], shown: Images, calls: Mapping[str, int]) -> Section:
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
            f"matter to the outputs (gradients). Bright is strong.{_last_call(calls.get(one.name, 1))}",
            measured=f"The two maps correlate at {one.agreement.mean():.2f}; with the edges of the image (Sobel) at "
            f"{one.sobel.mean():.2f} and {one.gradient_sobel.mean():.2f}.",
            published="Both matrices highlight the same structures at every depth; early layers detect edges.",
            formulas=("maps",),
        )
        for one in maps
    ]
    first = maps[0]
    is_edge = float(first.gradient_sobel.mean()) > 0.5
    return Section(
        title="Where do the layers look?",
        answer=f"{_places_sentence(maps)} The first layer "
        f"{'responds like an edge detector' if is_edge else 'is no plain edge detector'}: what matters to the outputs "
        f"correlates at {first.gradient_sobel.mean():.2f} with the strength of edges.",
        panels=tuple(panels),
    )


def _last_call(n_calls: int) -> str:
    """What to know about the map of a layer that is applied more than once."""
    if n_calls == 1:
        return ""
    return (
        f" The model applies this layer {n_calls} times to every image: the maps are those of the last time, the "
        "gradients count every time."
    )


def _places_sentence(maps: Sequence[LayerMaps]) -> str:
    """Whether filters and gradients look at the same places; maps of different images are the null."""
    agree = [float(one.agreement.mean()) for one in maps]
    span = f"correlation {min(agree):.2f}" + (f" to {max(agree):.2f}" if len(maps) > 1 else "")
    nulls = [_mismatched(one) for one in maps]
    if not len(nulls[0]):
        return f"The maps of filters and gradients have a {span}; one image is too few for a null."
    above = sum(value > float(null.max()) for value, null in zip(agree, nulls, strict=True))
    mean = float(torch.cat(nulls).mean())
    against = f"{span}; maps of different images: {mean:.2f} on average"
    if above == len(maps):
        return f"Filters and gradients look at the same places ({against})."
    if above == 0:
        return f"Filters and gradients do not look at the same places more than by chance ({against})."
    return (
        f"In {above} of {len(maps)} layers shown, filters and gradients look at the same places ({against})."
    )


def _mismatched(one: LayerMaps) -> Float[Tensor, " draws"]:
    """Mean correlation of the filters' maps with the gradients' maps of other images, one per way to pair them.

    What every image has in common, such as borders and the middle, is in these too.
    """
    features, gradients = (x.double().flatten(1) for x in (one.features, one.gradients))
    features, gradients = (x - x.mean(1, keepdim=True) for x in (features, gradients))
    # a constant map agrees with nothing: 0, as in the measure itself
    draws = [torch.cosine_similarity(features, gradients.roll(k, 0)).mean() for k in range(1, len(features))]
    return torch.stack(draws) if draws else torch.zeros(0, dtype=torch.float64)


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
