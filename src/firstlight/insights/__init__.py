"""Questions that need a training, a theory and a measure together."""

from firstlight.insights.explain_profile import ProfileExplanation, explain_profile
from firstlight.insights.tour import FirstLayerTour, Tour, run_tour

__all__ = ["FirstLayerTour", "ProfileExplanation", "Tour", "explain_profile", "run_tour"]
