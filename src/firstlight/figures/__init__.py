"""Plot builders from plain arrays, in one visual language."""

from firstlight.figures.categories import Dots, dots
from firstlight.figures.curves import Curve, curves
from firstlight.figures.figure import Figure
from firstlight.figures.heatmap import heatmap
from firstlight.figures.pictures import mosaic, picture_grid, png_uri, signed_to_pixels

__all__ = [
    "Curve",
    "Dots",
    "Figure",
    "curves",
    "dots",
    "heatmap",
    "mosaic",
    "picture_grid",
    "png_uri",
    "signed_to_pixels",
]
