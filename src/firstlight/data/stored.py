"""Images as they lie in the cache: bytes, a quarter of the memory of the floats made from them."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np
import torch
from jaxtyping import Int64, UInt8
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData, members_of


@dataclass(frozen=True, eq=False)
class StoredImages:
    """One split of a data set, before any scaling.

    Parameters
    ----------
    x : uint8 Tensor of shape (n, c, h, w)
        Pixels as bytes.
    y : int64 Tensor of shape (n,)
        Class index of every image.
    classes : tuple of str
        One name per class index.
    attributes : mapping of str to uint8 Tensor of shape (n,)
        Other yes/no labels of the same images, by name; only CelebA has any.
    files : tuple of str, default ()
        The file of every image, where each has one of its own.
    is_labelled : bool, default True
        Whether the labels mean anything.
    """

    x: UInt8[Tensor, "n c h w"]
    y: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    attributes: Mapping[str, UInt8[Tensor, " n"]] = field(default_factory=lambda: MappingProxyType({}))
    files: tuple[str, ...] = ()
    positions: Tensor | None = None  # in the split as it is stored, once some were chosen
    is_labelled: bool = True

    def __post_init__(self) -> None:
        if len(self.x) == 0 or len(self.x) != len(self.y):
            raise InvalidInput(
                f"there must be one label per image and at least one image; got {len(self.x)} images and "
                f"{len(self.y)} labels."
            )
        if self.y.min() < 0 or self.y.max() >= len(self.classes):
            raise InvalidInput(
                f"labels must lie in 0 .. {len(self.classes) - 1}; "
                f"got {int(self.y.min())} .. {int(self.y.max())}. Is this a copy of another data set?"
            )

    def __len__(self) -> int:
        return len(self.x)

    def take(self, index: Tensor) -> "StoredImages":
        """The images at `index`, in that order."""
        return dataclasses.replace(
            self,
            x=self.x[index],
            y=self.y[index],
            attributes={name: values[index] for name, values in self.attributes.items()},
            files=tuple(self.files[i] for i in index.tolist()) if self.files else (),
            positions=index if self.positions is None else self.positions[index],
        )

    def only(self, names: tuple[str, ...]) -> "StoredImages":
        """Keep the named classes, or relabel by one attribute."""
        if len(names) == 1 and names[0] in self.attributes:
            name = names[0]
            return StoredImages(self.x, self.attributes[name].long(), (f"not {name}", name))
        keep, y = members_of(self.y, self.classes, names)
        return dataclasses.replace(self.take(keep), y=y, classes=names)

    def decoded(self) -> "StoredImages":
        """Return the images themselves: nothing is left to be read."""
        return self

    def image_data(self, meta: dict[str, Any]) -> ImageData:
        """Scale to [0, 1]."""
        notes = {**meta, "n": len(self)} if self.is_labelled else {**meta, "n": len(self), "labelled": False}
        return ImageData(self.x.float().div_(255), self.y, self.classes, notes, self.files, self.positions)


Splits: TypeAlias = dict[str, StoredImages]


def stored_images(
    x: np.ndarray, y: np.ndarray, classes: tuple[str, ...], *, order: str = "n c h w"
) -> StoredImages:
    """Build from NumPy bytes whose axes come in another order, such as ``"n h w c"`` or ``"n h w"``."""
    axes = order.split()
    if "c" not in axes:
        x, axes = x[..., None], [*axes, "c"]
    pixels = np.ascontiguousarray(x.transpose([axes.index(axis) for axis in "nchw"]))
    if not pixels.flags.writeable:
        pixels = pixels.copy()
    return StoredImages(torch.from_numpy(pixels), torch.from_numpy(y.astype(np.int64)), classes)
