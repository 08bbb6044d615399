"""Images moved at random."""

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions import noted


def random_shifts(data: ImageData, max_shift: int = 7, *, seed: int) -> ImageData:
    """Move every image by its own uniform draw of up to `max_shift` pixels along each axis.

    Drawn once: the result is a fixed data set, as direct solves need. What leaves the frame is lost. Uncovered
    pixels get the smallest value of their channel: the background of digits, before and after normalisation.

    Parameters
    ----------
    data : ImageData
        Images whose border is background.
    max_shift : int, default 7
        Largest displacement, either way.
    seed : int
        Decides the displacements.
    """
    _, h, w = data.shape
    if not 0 <= max_shift < min(h, w):
        raise InvalidInput(
            f"`max_shift` must lie in 0 .. {min(h, w) - 1}, below the side of the images; "
            f"got max_shift={max_shift}."
        )
    shifts = torch.randint(
        -max_shift, max_shift + 1, (len(data), 2), generator=generator_from("shifts", seed)
    )
    x = shifted(data.x, shifts, data.x.amin((0, 2, 3)))
    return data.replace(x=x, meta=noted(data, "random_shifts", max_shift=max_shift, seed=seed))


def shifted(
    images: Float[Tensor, "n c h w"], shifts: Int[Tensor, "n 2"], background: Float[Tensor, " c"]
) -> Float[Tensor, "n c h w"]:
    """Move image i down by ``shifts[i, 0]`` and right by ``shifts[i, 1]`` pixels."""
    _, c, h, w = images.shape
    rows, rows_inside = _sources(shifts[:, 0], h)
    columns, columns_inside = _sources(shifts[:, 1], w)
    moved = images.gather(2, rows[:, None, :, None].expand(-1, c, -1, w))
    moved = moved.gather(3, columns[:, None, None, :].expand(-1, c, h, -1))
    inside = rows_inside[:, None, :, None] & columns_inside[:, None, None, :]
    return torch.where(inside, moved, background[:, None, None])


def _sources(shifts: Int[Tensor, " n"], length: int) -> tuple[Int[Tensor, "n l"], Bool[Tensor, "n l"]]:
    """Where each pixel along an axis comes from, and whether that lies inside the image."""
    source = torch.arange(length) - shifts[:, None]
    inside = (source >= 0) & (source < length)
    return source.clamp(0, length - 1), inside
