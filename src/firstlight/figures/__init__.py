"""Plot builders from plain arrays, in one visual language."""

from firstlight.figures.categories import Dots, dots
from firstlight.figures.curves import Curve, curves
from firstlight.figures.figure import Figure, Frame, KeyEntry, Sprite
from firstlight.figures.film import film
from firstlight.figures.heatmap import heatmap
from firstlight.figures.pictures import picture_grid
from firstlight.figures.svg import moving_parts, svg

__all__ = [
    "Curve",
    "Dots",
    "Figure",
    "Frame",
    "KeyEntry",
    "Sprite",
    "curves",
    "dots",
    "film",
    "heatmap",
    "moving_parts",
    "picture_grid",
    "svg",
]
