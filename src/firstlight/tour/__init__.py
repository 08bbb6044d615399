"""A short tour of everything: small networks on real images, measured part by part within minutes."""

from firstlight.tour.parts import PARTS
from firstlight.tour.run import Tour, run_tour

__all__ = [
    "PARTS",
    "Tour",
    "run_tour",
]
