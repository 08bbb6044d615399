"""A short tour of everything: small networks on real images, measured part by part within minutes."""

from firstlight.tour.ansatz import AnsatzTour, run_ansatz_tour
from firstlight.tour.first_layer import FirstLayerTour
from firstlight.tour.identity import IdentityTour, run_identity_tour
from firstlight.tour.images import ImagesTour
from firstlight.tour.order import OrderTour, run_order_tour
from firstlight.tour.parts import PARTS
from firstlight.tour.run import Tour, run_tour
from firstlight.tour.training import TrainingTour

__all__ = [
    "PARTS",
    "AnsatzTour",
    "FirstLayerTour",
    "IdentityTour",
    "ImagesTour",
    "OrderTour",
    "Tour",
    "TrainingTour",
    "run_ansatz_tour",
    "run_identity_tour",
    "run_order_tour",
    "run_tour",
]
