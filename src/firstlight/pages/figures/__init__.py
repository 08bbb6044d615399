"""Plot builders from plain arrays, in one visual language."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.pages.figures.curves import Curve, curves
    from firstlight.pages.figures.dots import Dots, dots
    from firstlight.pages.figures.figure import Figure, Frame, Sprite
    from firstlight.pages.figures.heatmap import heatmap
    from firstlight.pages.figures.pictures import picture_grid
    from firstlight.pages.figures.slider import film
    from firstlight.pages.figures.svg import moving_parts, svg

lazy_exports(__name__)
