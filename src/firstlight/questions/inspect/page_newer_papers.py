"""The section on what later papers add, shared by the tour and by the page of one's own model."""

import math

from firstlight.measures.layers.activations import OUTPUTS
from firstlight.measures.layers.class_variation import ClassVariation
from firstlight.pages.page import Section, beyond_chance
from firstlight.questions.inspect.newer_papers import FeatureReport

MISSING = {
    "centred": "The ansatz of what training changed is missing",
    "variation": "The variation within classes is missing",
    "richness": "Richness is missing",
}


def later_advice(features: FeatureReport) -> str:
    """What to do about each number, as far as it differs from its null."""
    advice = []
    hidden = [row for row in features.centred.rows if not row.is_output] if features.centred else []
    if hidden:
        p = 1 / (1 + min(len(row.null_pearson) for row in hidden))
        if not beyond_chance(sum(row.is_above_null for row in hidden), n=len(hidden), p=p):
            advice.append(
                "Nothing here says that training changed features: compare with earlier checkpoints."
            )
        elif not all(row.is_above_null for row in hidden):
            advice.append("Layers at their null can be frozen for a trial.")
    if any(not row.is_output and math.isfinite(row.exponent) for row in features.exponents):
        advice.append("Where the power is far from 1, judge the ansatz at that power.")
    if features.variation is not None and len(features.variation.layers) > 1:
        advice.append(_variation_advice(features.variation))
    if features.richness is not None:
        above = features.richness.value > float(features.richness.null.max())
        advice.append(
            "The last features hold less beyond the outputs than chance gives: expect them to transfer badly to "
            "other tasks the closer the share is to 1."
            if above
            else "The last features hold as much beyond the outputs as chance gives: other tasks may use them."
        )
    return " ".join(advice)


def _variation_advice(variation: ClassVariation) -> str:
    layers = [i for i, name in enumerate(variation.layers) if i and name != OUTPUTS]
    if not layers or not variation.is_below_projections[layers[-1]]:
        return (
            "The classes are no closer together than random projections leave them: the labels did not shape the last "
            "features."
        )
    first = next(i for i in layers if all(variation.is_below_projections[j] for j in layers if j >= i))
    # nonlinear layers and pooling can do the same before training, which random projections do not show
    return (
        f"From {variation.layers[first]} on the classes lie closer together than random projections leave them. "
        "Measure the initial network too: if it does the same, the labels did not shape these features; if not, "
        "probe or cut there."
    )


def later_sections(features: FeatureReport | None) -> tuple[Section, ...]:
    """What later papers add, each number with its null; what is missing says why."""
    if features is None or not features.sentences():
        return ()
    missing = [f"{MISSING[name]}: {reason}." for name, reason in features.missing.items()]
    rows = {
        f"{row.layer}, exponent": f"{row.exponent:.2f} ({row.low:.2f} to {row.high:.2f}); rotated gradients "
        f"{float(row.null_exponent.nanmean()):.2f}"
        for row in features.exponents
        if not row.is_output and math.isfinite(row.exponent)
    }
    if features.centred is not None:
        rows |= {
            f"{row.layer}, ansatz of the change": f"{row.pearson:.2f}; rotated gradients "
            f"{float(row.null_pearson.mean()):.2f}"
            for row in features.centred.rows
            if not row.is_output
        }
    if features.variation is not None:
        pairs = zip(features.variation.layers, features.variation.ratio.tolist(), strict=True)
        shuffled = features.variation.shuffled.mean(1).tolist()
        rows |= {
            f"{name}, within over between classes": f"{ratio:.2g}; shuffled labels {null:.2g}"
            for (name, ratio), null in zip(pairs, shuffled, strict=True)
        }
    return (
        Section(
            title="What do later papers add?",
            answer=" ".join([*features.sentences(), *missing, later_advice(features)]),
            details=rows,
        ),
    )
