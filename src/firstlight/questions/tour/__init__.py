"""A short tour of everything: small networks on real images, measured part by part within minutes."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.questions.tour.parts import PARTS
    from firstlight.questions.tour.run import Tour, run_tour

__all__ = [
    "PARTS",
    "Tour",
    "run_tour",
]

lazy_exports(__name__)
