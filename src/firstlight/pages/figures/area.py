"""The rectangle of a figure that its data fill."""

from dataclasses import dataclass
from typing import Any

from firstlight.pages.figures.axes import Scale


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
    is_turned : bool, default False
        Whether the x of a trace runs down and its y across, so that columns become rows. The two scales are those of
        the drawing: `x` is the horizontal one.
    """

    x: Scale
    y: Scale
    left: float
    top: float
    width: float
    height: float
    is_numbered: bool = False
    is_turned: bool = False

    def across(self, value: Any) -> float:
        """Horizontal pixel of a value."""
        return self.left + self.width * self.x.place(value)

    def down(self, value: Any) -> float:
        """Vertical pixel of a value, counted from the top."""
        return self.top + self.height * (1 - self.y.place(value))

    def place(self, x: Any, y: Any) -> tuple[float, float]:
        """Pixels of a point of a trace."""
        x, y = (y, x) if self.is_turned else (x, y)
        return self.across(x), self.down(y)

    def holds(self, x: Any, y: Any) -> bool:
        """Whether a point of a trace has a place: gaps and zeros on logarithmic axes have none."""
        x, y = (y, x) if self.is_turned else (x, y)
        return self.x.holds(x) and self.y.holds(y)
