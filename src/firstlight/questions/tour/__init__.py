"""A short tour of everything: small networks on real images, measured part by part within minutes."""

from firstlight.questions.tour.parts import PARTS
from firstlight.questions.tour.run import Tour, run_tour

__all__ = [
    "PARTS",
    "Tour",
    "run_tour",
]
