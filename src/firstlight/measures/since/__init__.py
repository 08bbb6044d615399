"""What later papers measure: answers to the objections that the nulls of the five papers raise."""

from firstlight.measures.since.activations import (
    activations,
)
from firstlight.measures.since.ansatz_exponent import (
    ansatz_exponent,
)
from firstlight.measures.since.centred_ansatz import (
    centred_ansatz,
)
from firstlight.measures.since.class_variation import (
    class_variation,
)
from firstlight.measures.since.gaussian_copies import (
    accuracy_by_moments,
    gaussian_copies,
)
from firstlight.measures.since.master_filters import (
    master_filters,
)
from firstlight.measures.since.richness import (
    richness,
)
from firstlight.measures.since.score_agreement import (
    score_agreement,
)
from firstlight.measures.since.stationarity import (
    stationarity,
)

__all__ = [
    "accuracy_by_moments",
    "activations",
    "ansatz_exponent",
    "centred_ansatz",
    "class_variation",
    "gaussian_copies",
    "master_filters",
    "richness",
    "score_agreement",
    "stationarity",
]
