"""Questions that need a training, a theory and a measure together."""

from firstlight.insights.ansatz_tour import AnsatzTour, ansatz_tour
from firstlight.insights.explain_profile import ProfileExplanation, explain_profile
from firstlight.insights.fresh_twin import fresh_twin
from firstlight.insights.inspection import Inspection, inspect
from firstlight.insights.tour import FirstLayerTour, Tour, run_tour

__all__ = [
    "AnsatzTour",
    "FirstLayerTour",
    "Inspection",
    "ProfileExplanation",
    "Tour",
    "ansatz_tour",
    "explain_profile",
    "fresh_twin",
    "inspect",
    "run_tour",
]
