"""Some images of a data set, ready to be looked at on a page."""

import dataclasses
from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor

from firstlight._internal.result import Result
from firstlight._internal.shapes import Images
from firstlight.data.images import ImageData


@dataclass(frozen=True, kw_only=True)
class ShownImages(Result):
    """Some images, ready to be looked at.

    Parameters
    ----------
    index : integer Tensor of shape (n,)
        Where they stand in the caller's data: ``data.x[index]`` are these images.
    position : integer Tensor of shape (n,)
        Where they stand in the data set that the caller's data were chosen from.
    files : tuple of str
        Their files, if each has one of its own.
    images : Tensor of shape (n, c, h, w)
        Pixels in [0, 1].
    labels : tuple of str
        Names of the classes they are labelled with.
    """

    index: Int[Tensor, " n"]
    images: Images
    labels: tuple[str, ...]
    position: Int[Tensor, " n"]
    files: tuple[str, ...] = ()

    def within(self, chosen: Int[Tensor, " m"]) -> "ShownImages":
        """Refer to the data that `chosen` was taken from, instead of to the chosen images."""
        return dataclasses.replace(self, index=chosen[self.index])


def shown_images(index: Int[Tensor, " n"], data: ImageData) -> ShownImages:
    """Some images of `data` with pixels in [0, 1], whatever their scale."""
    low, high = torch.aminmax(data.x)
    pixels = data.x[index].float()
    if low < 0 or high > 1:  # normalised or whitened images: each picture on its own scale
        floor, top = pixels.amin((1, 2, 3), keepdim=True), pixels.amax((1, 2, 3), keepdim=True)
        pixels = (pixels - floor) / (top - floor).clamp(min=1e-12)
    return ShownImages(
        index=index,
        images=pixels,
        labels=tuple(data.classes[int(y)] for y in data.y[index]),
        position=data.origin[index],
        files=tuple(data.files[i] for i in index.tolist()) if data.files else (),
    )
