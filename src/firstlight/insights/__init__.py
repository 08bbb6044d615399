"""Questions that need a training, a theory and a measure together."""

# learning order
from firstlight.insights.early_stopping import EarlyStopping, early_stopping_by_band
from firstlight.insights.explain_profile import ProfileExplanation, explain_profile
from firstlight.insights.order_report import OrderReport, Shown, label_suspicion, order_report, separation
from firstlight.insights.order_tour import OrderTour, run_order_tour
from firstlight.insights.tour import FirstLayerTour, Tour, run_tour

__all__ = [
    "EarlyStopping",
    "FirstLayerTour",
    "OrderReport",
    "OrderTour",
    "ProfileExplanation",
    "Shown",
    "Tour",
    "early_stopping_by_band",
    "explain_profile",
    "label_suspicion",
    "order_report",
    "run_order_tour",
    "run_tour",
    "separation",
]
