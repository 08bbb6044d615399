"""Curves with bands: the shape of most of our figures."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.style import ROLES, SEQUENTIAL, layout, scale_colour, with_alpha


@dataclass(frozen=True, kw_only=True)
class Curve:
    """One or several runs of the same thing: the mean is drawn, the range over runs shaded.

    Parameters
    ----------
    name : str
        As the reader should see it.
    values : Tensor of shape (runs, points)
        One row per run.
    role : str, default 'trained'
        Decides colour and dash, see :data:`firstlight.pages.figures.style.ROLES`.
    shade : float, optional
        Place between 0 and 1 in an ordered family of curves, which then have the colours of an even
        scale.
    """

    name: str
    values: Float[Tensor, "runs points"]
    role: str = "trained"
    shade: float | None = None

    @property
    def colour(self) -> str:
        """By role, or by place in the family."""
        if self.shade is None:
            return ROLES[self.role].colour
        # the ends of the scale are lost on dark and on light ground
        return scale_colour(0.28 + 0.6 * self.shade, SEQUENTIAL)


def curves(
    series: Sequence[Curve],
    *,
    title: str,
    alt: str,
    x: str,
    y: str,
    at: Sequence[float] | None = None,
    log_x: bool = False,
    log_y: bool = False,
    height: int = 360,
) -> Figure:
    """Draw curves over a common axis, with the range over runs as a band.

    Parameters
    ----------
    series : sequence of Curve
        The curves; every one needs the same number of points.
    title, alt : str
        See :class:`Figure`.
    x, y : str
        Axis titles with units.
    at : sequence of float, optional
        Positions of the points; 1, 2, ... by default.
    log_x, log_y : bool, default False
        Logarithmic axes.
    height : int, default 360
        In pixels.
    """
    n_points = series[0].values.shape[1]
    positions = [float(p) for p in at] if at is not None else [float(p) for p in range(1, n_points + 1)]
    data: list[dict[str, Any]] = []
    table: dict[str, list[Any]] = {x: positions}
    for curve in series:
        mean = curve.values.double().mean(0)
        if len(curve.values) > 1:
            data.append(_band(curve, positions))
            table[f"{curve.name} (sd)"] = curve.values.double().std(0).tolist()
        table[curve.name] = mean.tolist()
        data.append(_line(curve, positions, mean))
    frame = layout(x=x, y=y, height=height)
    for axis, is_log in (("xaxis", log_x), ("yaxis", log_y)):
        if is_log:
            frame[axis] |= {"type": "log"}
    return Figure(plot={"data": data, "layout": frame}, title=title, alt=alt, table=table)


def _line(curve: Curve, positions: list[float], mean: Tensor) -> dict[str, Any]:
    role = ROLES[curve.role]
    return {
        "type": "scatter",
        "mode": "lines+markers" if len(positions) <= 60 else "lines",
        "name": curve.name,
        "group": curve.name,
        "x": positions,
        "y": mean.tolist(),
        "opacity": role.opacity,
        "line": {"colour": curve.colour, "dash": role.dash, "width": role.width},
        "marker": {"size": 5, "colour": curve.colour},
    }


def _band(curve: Curve, positions: list[float]) -> dict[str, Any]:
    low, high = torch.aminmax(curve.values.double(), dim=0)
    return {
        "type": "scatter",
        "mode": "lines",
        "x": positions + positions[::-1],
        "y": high.tolist() + low.tolist()[::-1],
        "fill": with_alpha(curve.colour, 0.15),
        "group": curve.name,
    }
