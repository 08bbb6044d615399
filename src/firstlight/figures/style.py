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

FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, sans-serif"


def layout(*, x: str, y: str, height: int = 360, **more: Any) -> dict[str, Any]:
    """Shared Plotly layout; `x` and `y` are axis titles with their units."""
    axis = {"automargin": True, "zeroline": False, "gridcolor": "rgba(128,128,128,0.2)", "linecolor": "#888"}
    return {
        "height": height,
        "margin": {"l": 60, "r": 20, "t": 30, "b": 50},
        "font": {"family": FONT, "size": 13},
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "hovermode": "closest",
        "legend": {"orientation": "h", "y": -0.25, "yanchor": "top"},
        "xaxis": {**axis, "title": {"text": x}},
        "yaxis": {**axis, "title": {"text": y}},
        **more,
    }


def with_alpha(colour: str, alpha: float) -> str:
    """Turn ``#rrggbb`` into ``rgba(...)``.

    Examples
    --------
    >>> with_alpha("#0072B2", 0.2)
    'rgba(0,114,178,0.2)'
    """
    red, green, blue = (int(colour[i : i + 2], 16) for i in (1, 3, 5))
    return f"rgba({red},{green},{blue},{alpha})"
