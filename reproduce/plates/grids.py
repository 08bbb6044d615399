"""Rows of pictures with their names: the plates that show images."""

import base64
import io
from collections.abc import Mapping

import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

from firstlight.pages.figures import Figure
from firstlight.pages.figures.pictures import mosaic, signed_to_pixels

GREYS = 64  # colours of a stored picture: the eye sees no step, and a plate stays below 100 kB
WIDE = 620  # pixels of a grid on the page
GAP = 2  # pixels between pictures: one may vanish when a page shrinks them


def picture_rows(rows: Mapping[str, Float[Tensor, "n c h w"]], *, title: str) -> Figure:
    """Pictures with values in [0, 1], a row for each name; short rows end early.

    Parameters
    ----------
    rows : mapping of str to Tensor of shape (n, c, h, w)
        Of one size; grey pictures have one channel.
    title : str
        What they show.
    """
    columns = max(len(row) for row in rows.values())
    cells = torch.cat([_filled(row.float(), columns) for row in rows.values()])
    pixels = mosaic(cells, columns=columns, zoom=1, gap=GAP)
    height, width = pixels.shape[:2]
    step = cells.shape[2] + GAP
    scale = max(1.0, WIDE / width)
    plot = {
        "data": [{"type": "image", "source": _png(pixels)}],
        "layout": {
            "height": height * scale,
            "xaxis": {"visible": False, "range": [0, width * scale]},
            "yaxis": {
                "range": [height * scale, 0],
                "tickvals": [scale * step * (i + 0.5) for i in range(len(rows))],
                "ticktext": list(rows),
            },
        },
    }
    return Figure(plot=plot, title=title, alt=f"{title}. Rows: {', '.join(rows)}.")


def in_range_of(images: Float[Tensor, "n c h w"], reference: Tensor) -> Float[Tensor, "n c h w"]:
    """Map the range of a reference to [0, 1]; what lies beyond is cut off."""
    low, high = reference.min(), reference.max()
    return ((images - low) / (high - low)).clamp(0, 1)


def stretched(images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Map the range of every picture to [0, 1]."""
    flat = images.flatten(1)
    low, high = flat.amin(1), flat.amax(1)
    width = torch.where(high > low, high - low, torch.ones_like(high))
    return (images - low[:, None, None, None]) / width[:, None, None, None]


signed = signed_to_pixels


def _filled(row: Tensor, columns: int) -> Tensor:
    if row.shape[1] == 1:
        row = row.expand(-1, 3, -1, -1)
    empty = torch.ones(columns - len(row), *row.shape[1:])
    return torch.cat([row, empty])


def _png(pixels: Tensor) -> str:
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(pixels)).quantize(GREYS).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()
