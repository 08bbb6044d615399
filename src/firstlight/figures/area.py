"""The rectangle of a figure that its data fill."""

from dataclasses import dataclass
from typing import Any

from firstlight.figures.scale import Scale


@dataclass(frozen=True)
class Area:
    """Where the data lie in the drawing, and how values become pixels.

    Parameters
    ----------
    x, y : Scale
        The axes.
    left, top, width, height : float
        In pixels.
    is_numbered : bool, default False
        Whether marks carry the number of their point, so that a page can show the picture that belongs to it.
    """

    x: Scale
    y: Scale
    left: float
    top: float
    width: float
    height: float
    is_numbered: bool = False

    def across(self, value: Any) -> float:
        """Horizontal pixel of a value."""
        return self.left + self.width * self.x.place(value)

    def down(self, value: Any) -> float:
        """Vertical pixel of a value, counted from the top."""
        return self.top + self.height * (1 - self.y.place(value))
