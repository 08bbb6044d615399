"""What later papers measure: answers to the objections that the nulls of the five papers raise."""

from firstlight.measures.since.ansatz_exponent import (
    ansatz_exponent,
)
from firstlight.measures.since.centred_ansatz import (
    centred_ansatz,
)
from firstlight.measures.since.stationarity import (
    stationarity,
)

__all__ = [
    "ansatz_exponent",
    "centred_ansatz",
    "stationarity",
]
