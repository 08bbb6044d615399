"""One visual language: colours with a fixed meaning, in every figure, page and terminal table.

Colour-blind safe (Okabe and Ito). Measurements are drawn strong; theory and nulls lighter and dashed, so
that a figure still reads in grey.
"""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Role:
    """How one kind of curve looks everywhere."""

    colour: str
    dash: str = "solid"
    width: float = 2.5
    opacity: float = 1.0


ROLES: dict[str, Role] = {
    "trained": Role("#0072B2"),
    "initial": Role("#999999", dash="dot", width=1.5),
    "random labels": Role("#D55E00"),
    "theory": Role("#009E73", dash="dash", width=2.0, opacity=0.9),
    "null": Role("#B0A8B9", dash="dash", width=1.5, opacity=0.9),
    "other": Role("#CC79A7"),
}

# Ordered families, such as components or epochs: dark to light, so that the order survives in grey.
SEQUENTIAL = ("#440154", "#414487", "#2a788e", "#22a884", "#7ad151", "#fde725")
DIVERGING = ("#b35806", "#f5b97a", "#f7f7f7", "#8fbfe0", "#0b5a94")  # signed numbers: orange, white, blue

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def layout(*, x: str, y: str, height: int = 360, **more: Any) -> dict[str, Any]:
    """Shared layout; `x` and `y` are axis titles with their units, `more` replaces or adds settings."""
    return {"height": height, "xaxis": {"title": x}, "yaxis": {"title": y}, **more}


def scale_colour(place: float, scale: tuple[str, ...]) -> str:
    """Colour at a place between 0 and 1 of an even colour scale.

    Examples
    --------
    >>> scale_colour(0.5, ("#000000", "#ffffff"))
    '#808080'
    """
    at = min(max(place, 0.0), 1.0) * (len(scale) - 1)
    left = min(int(at), len(scale) - 2)
    pair = [[int(scale[left + k][i : i + 2], 16) for i in (1, 3, 5)] for k in (0, 1)]
    mixed = [a + (b - a) * (at - left) for a, b in zip(*pair, strict=True)]
    return "#" + "".join(f"{int(v + 0.5):02x}" for v in mixed)


def with_alpha(colour: str, alpha: float) -> str:
    """Turn ``#rrggbb`` into ``rgba(...)``.

    Examples
    --------
    >>> with_alpha("#0072B2", 0.2)
    'rgba(0,114,178,0.2)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
