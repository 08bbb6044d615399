"""The section on what later papers add, shared by the tour and by the page of one's own model."""

import math

from firstlight.insights import FeatureReport
from firstlight.report.page import Section

MISSING = {
    "centred": "The ansatz of what training changed is missing",
    "variation": "The variation within classes is missing",
    "richness": "Richness is missing",
}
LATER_ADVICE = (
    "A layer whose change does not exceed its null can be frozen for a trial; classes that do not draw together with "
    "depth point to features that the labels did not shape."
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
            answer=" ".join([*features.sentences(), *missing, LATER_ADVICE]),
            details=rows,
        ),
    )
