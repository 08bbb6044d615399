"""Matrices as colour maps, with the numbers written in while there are few."""

from collections.abc import Sequence

from jaxtyping import Float
from torch import Tensor

from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.style import DIVERGING, SEQUENTIAL, layout

MOST_NUMBERS = 150  # cells whose values can be written in and read


def heatmap(
    values: Float[Tensor, "rows columns"],
    *,
    rows: Sequence[str],
    columns: Sequence[str],
    title: str,
    alt: str,
    x: str = "",
    y: str = "",
    symmetric: bool = True,
) -> Figure:
    """Draw a labelled matrix; `symmetric` centres the colours on zero and spans -1 to 1."""
    low, high = (-1.0, 1.0) if symmetric else (float(values.min()), float(values.max()))
    scale = DIVERGING if symmetric else SEQUENTIAL
    trace = {
        "type": "heatmap",
        "z": values.tolist(),
        "x": list(columns),
        "y": list(rows),
        "zmin": low,
        "zmax": high,
        "colours": list(scale),
        # where there is no room for numbers in the cells, a bar says what the colours mean
        "numbers": values.numel() <= MOST_NUMBERS,
    }
    frame = layout(x=x, y=y, height=min(640, 140 + 34 * len(rows)))
    frame["yaxis"] |= {"reversed": True, "grid": False}
    frame["xaxis"] |= {"grid": False}
    table = {y or "row": list(rows), **{str(c): values[:, i].tolist() for i, c in enumerate(columns)}}
    return Figure(plot={"data": [trace], "layout": frame}, title=title, alt=alt, table=table)
