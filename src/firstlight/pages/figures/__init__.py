"""Plot builders from plain arrays, in one visual language."""

from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure, Frame, KeyEntry, Sprite
from firstlight.pages.figures.heatmap import heatmap
from firstlight.pages.figures.pictures import picture_grid
from firstlight.pages.figures.slider import film
from firstlight.pages.figures.svg import moving_parts, svg

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
