"""What every intervention shares: the note it leaves and the way it walks over the pixels."""

from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData

_BLOCK_ELEMENTS = 1 << 21  # 16 MB of float64 at a time


def noted(data: ImageData, name: str, /, **facts: Any) -> dict[str, Any]:
    """`meta` entry with one more intervention: its name and what decided it, in order of application."""
    return {"interventions": [*data.meta.get("interventions", []), {"name": name, **facts}]}


def parts(x: Tensor) -> Iterator[Tensor]:
    """A few images at a time, in float64."""
    size = max(1, _BLOCK_ELEMENTS // x[0].numel())
    return (x[start : start + size].double() for start in range(0, len(x), size))


def mapped(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function of float64 images block by block and give the result in the precision of `x`.

    The function must keep the number of images and may change their size.
    """
    return torch.cat([function(part).to(x.dtype) for part in parts(x)])


def on_vectors(function: Callable[[Tensor], Tensor]) -> Callable[[Tensor], Tensor]:
    """Turn a function of vectorised images into one of images."""
    return lambda images: function(images.flatten(1)).reshape(images.shape)


def check_same_shape(data: ImageData, shape: tuple[int, int, int]) -> None:
    """Refuse images of another size than the fitted ones."""
    if data.shape != shape:
        raise InvalidInput(
            f"`data` must hold images of the fitted shape {shape}; got {data.shape}. "
            "Fit on images of this shape."
        )
