"""Pictures of patches, filters and images, as one small PNG inside a figure."""

import base64
import io
import math
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import torch
from jaxtyping import Float, UInt8
from PIL import Image
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.pages.figures.figure import Figure, Sprite

GAP = 2  # pixels between the pictures of a grid
MOST_VALUES = 3000  # of pictures whose values are listed one by one


def signed_to_pixels(images: Float[Tensor, "n c h w"], *, each: bool = True) -> Float[Tensor, "n c h w"]:
    """Map signed values to [0, 1] with zero at middle grey.

    Parameters
    ----------
    images : Tensor of shape (n, c, h, w)
        Filters, eigenvectors or differences.
    each : bool, default True
        Scale every picture by its own largest magnitude, else all by the largest of all.
    """
    top = images.abs().amax(dim=(1, 2, 3) if each else (0, 1, 2, 3), keepdim=True)
    return 0.5 + 0.5 * images / torch.where(top > 0, top, torch.ones_like(top))


def mosaic(
    images: Float[Tensor, "n c h w"], *, columns: int | None = None, zoom: int = 8, gap: int = 1
) -> UInt8[Tensor, "hh ww 3"]:
    """Lay pictures with values in [0, 1] on a grid, enlarged without smoothing."""
    n, c, h, w = images.shape
    columns = columns or math.ceil(math.sqrt(n))
    rows = math.ceil(n / columns)
    pixels = (images.clamp(0, 1) * 255).round().to(torch.uint8)
    pixels = pixels.expand(n, 3, h, w) if c == 1 else pixels[:, :3]
    pixels = pixels.repeat_interleave(zoom, 2).repeat_interleave(zoom, 3)
    step_h, step_w = h * zoom + gap, w * zoom + gap
    canvas = torch.full((rows * step_h + gap, columns * step_w + gap, 3), 255, dtype=torch.uint8)
    for i in range(n):
        row, column = divmod(i, columns)
        top, left = gap + row * step_h, gap + column * step_w
        canvas[top : top + h * zoom, left : left + w * zoom] = pixels[i].permute(1, 2, 0)
    return canvas


def png_uri(pixels: UInt8[Tensor, "hh ww 3"]) -> str:
    """Encode a picture as a `data:` address."""
    buffer = io.BytesIO()
    Image.fromarray(np.asarray(pixels)).save(buffer, format="PNG", optimize=True)
    return "data:image/png;base64," + base64.b64encode(buffer.getvalue()).decode()


def picture_grid(
    images: Float[Tensor, "n c h w"],
    *,
    title: str,
    alt: str,
    signed: bool = True,
    scale: str = "each",
    marked: Mapping[int, str] | None = None,
    columns: int | None = None,
    zoom: int | None = None,
) -> Figure:
    """Show filters (`signed`) or images side by side.

    Parameters
    ----------
    images : Tensor of shape (n, c, h, w)
        Two channels are shown as their first; more than three as the first three.
    title, alt : str
        See :class:`Figure`.
    signed : bool, default True
        Zero is middle grey and the scale symmetric.
    scale : str, default 'each'
        Of signed pictures: "each" by its own largest magnitude, or "all" by the largest of all, so that weak ones
        look weak.
    marked : mapping of int to str, optional
        Pictures to cross out, counted from 0, each with the reason.
    columns, zoom : int, optional
        Of the grid; by default nearly square and about 40 pixels a picture.
    """
    if scale not in ("each", "all"):
        raise InvalidInput(f"`scale` must be 'each' or 'all'; got scale={scale!r}.")
    if images.shape[1] == 2:
        images = images[:, :1]
    columns = columns or math.ceil(math.sqrt(len(images)))
    zoom = zoom or max(1, 40 // max(images.shape[2:]))
    pixels = mosaic(
        signed_to_pixels(images, each=scale == "each") if signed else images,
        columns=columns,
        zoom=zoom,
        gap=GAP,
    )
    height, width = pixels.shape[:2]
    plot = {
        "data": [
            {"type": "image", "source": png_uri(pixels)},
            *_crosses(marked, images.shape[2:], columns, zoom),
        ],
        "layout": {
            "height": height,
            "xaxis": {"visible": False, "range": [0, width]},
            "yaxis": {"visible": False, "range": [height, 0]},
        },
    }
    return Figure(plot=plot, title=title, alt=alt, table=_table(images))


def _crosses(
    marked: Mapping[int, str] | None, size: Sequence[int], columns: int, zoom: int
) -> list[dict[str, Any]]:
    """Boxes around pictures, in pixels of the mosaic."""
    if not marked:
        return []
    tall, wide = (side * zoom for side in size)
    places = {index: divmod(index, columns) for index in marked}
    boxes = [
        [GAP + column * (wide + GAP), GAP + row * (tall + GAP), wide, tall] for row, column in places.values()
    ]
    return [{"type": "cross", "boxes": boxes, "text": [f"{i}: {marked[i]}" for i in marked]}]


def sprite(images: Float[Tensor, "n c h w"], *, name: str) -> Sprite:
    """Filters or components in one image, to be shown one by one beside the points of a figure."""
    columns = math.ceil(math.sqrt(len(images)))
    pixels = mosaic(signed_to_pixels(images), columns=columns, zoom=1, gap=0)
    return Sprite(source=png_uri(pixels), n=len(images), columns=columns, name=name)


def _table(images: Float[Tensor, "n c h w"]) -> dict[str, list[Any]]:
    """All values of small pictures, a summary of large ones."""
    flat = images.double().flatten(1)
    columns = {"picture": list(range(1, len(flat) + 1))}
    if flat.numel() <= MOST_VALUES:
        names = [f"{c},{i},{j}" for c, i, j in product(*map(range, images.shape[1:]))]
        return columns | {name: flat[:, i].tolist() for i, name in enumerate(names)}
    spread = flat.std(1, correction=0)
    summary = {"mean": flat.mean(1), "sd": spread, "lowest": flat.amin(1), "highest": flat.amax(1)}
    return columns | {name: values.tolist() for name, values in summary.items()}
