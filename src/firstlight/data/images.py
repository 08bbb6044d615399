"""The one container for labelled images."""

import dataclasses
import hashlib
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from torch import Tensor

from firstlight.core.errors import InvalidInput, unknown_name
from firstlight.core.seeds import generator_from
from firstlight.core.shapes import Images, Labels


@dataclass(frozen=True, eq=False)
class ImageData:
    """Images with labels, class names and a note of where they came from.

    Parameters
    ----------
    x : Tensor of shape (n, c, h, w)
        Images ``n c h w``, float32, in [0, 1] unless an intervention changed the scale.
    y : Labels
        Class index of every image, int64.
    classes : tuple of str
        One name per class index.
    meta : dict of str to object
        Free facts, such as ``{"name": "cifar10", "split": "train"}``; interventions add their own.

    Examples
    --------
    >>> data = ImageData(torch.zeros(4, 1, 2, 2), torch.tensor([0, 1, 0, 1]), ("cat", "dog"))
    >>> len(data), data.shape, data.counts.tolist()
    (4, (1, 2, 2), [2, 2])
    """

    x: Images
    y: Labels
    classes: tuple[str, ...]
    meta: dict[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        # worker processes receive images row by row, so they are kept that way here too; the address is
        # left alone, for a copy would undo the memory map that the processes share
        object.__setattr__(self, "x", self.x.contiguous())
        if self.x.ndim != 4 or self.x.shape[0] == 0:
            raise InvalidInput(f"`x` must hold images as n c h w with n > 0; got {tuple(self.x.shape)}.")
        if self.y.shape != self.x.shape[:1]:
            raise InvalidInput(
                f"`y` must hold one label per image, {len(self.x)}; got {tuple(self.y.shape)}."
            )
        if not self.x.isfinite().all():
            raise InvalidInput("`x` holds NaN or infinite pixels. Remove or repair those images first.")
        if self.y.min() < 0 or self.y.max() >= len(self.classes):
            raise InvalidInput(
                f"labels must lie in 0 .. {len(self.classes) - 1} for {len(self.classes)} classes; "
                f"got {int(self.y.min())} .. {int(self.y.max())}."
            )

    def __len__(self) -> int:
        return len(self.x)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, c, h, w = self.x.shape
        return c, h, w

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @cached_property
    def counts(self) -> Tensor:
        """Number of images per class."""
        return torch.bincount(self.y, minlength=self.n_classes)

    @cached_property
    def fingerprint(self) -> str:
        """Hash of pixels, labels and class names: two data sets are the same if this is."""
        digest = hashlib.sha256()
        for part in (self.x, self.y):
            digest.update(repr((tuple(part.shape), str(part.dtype))).encode())
            digest.update(part.contiguous().numpy().data)
        digest.update(repr(self.classes).encode())
        return digest.hexdigest()[:32]

    def replace(self, **changes: Any) -> "ImageData":
        """Copy with some fields changed; `meta` entries are added to the present ones."""
        meta = {**self.meta, **changes.pop("meta", {})}
        return dataclasses.replace(self, meta=meta, **changes)

    def map(self, function: Callable[[Images], Images], **meta: Any) -> "ImageData":
        """Copy with `function` applied to the pixels."""
        return self.replace(x=function(self.x), meta=meta)

    def take(self, index: Tensor) -> "ImageData":
        """Copy with the images at `index`, in that order."""
        return self.replace(x=self.x[index], y=self.y[index])

    def sample(self, n: int, *, seed: int) -> "ImageData":
        """Draw `n` images without replacement, as evenly over the classes as their sizes allow.

        The order is random, so any prefix is a fair sample too.
        """
        return self.take(even_sample(self.y, n, n_classes=self.n_classes, seed=seed))

    def only(self, *names: str) -> "ImageData":
        """Keep the named classes, renumbered in the order given."""
        keep, y = members_of(self.y, self.classes, names)
        return dataclasses.replace(self, x=self.x[keep], y=y, classes=names)

    def __reduce__(self) -> tuple[Any, ...]:
        # as NumPy arrays, so that joblib shares large ones between processes by memory map
        return _rebuild, (self.x.numpy(), self.y.numpy(), self.classes, self.meta)


def even_sample(y: Labels, n: int, *, n_classes: int, seed: int) -> Int[Tensor, " chosen"]:
    """Indices of `n` images, as evenly over the classes as their sizes allow, in random order.

    Examples
    --------
    >>> y = torch.tensor([0] * 90 + [1] * 10)
    >>> y[even_sample(y, 12, n_classes=2, seed=0)].bincount().tolist()
    [6, 6]
    """
    if not 1 <= n <= len(y):
        raise InvalidInput(f"`n` must lie in 1 .. {len(y)}, the number of images; got n={n}.")
    generator = generator_from("sample", seed)
    order = torch.randperm(len(y), generator=generator)
    labels = y[order]
    # rank of each image within its class; taking the lowest ranks keeps the classes even
    rank = torch.empty(len(y), dtype=torch.int64)
    for label in range(n_classes):
        members = (labels == label).nonzero().flatten()
        rank[members] = torch.arange(len(members))
    chosen = order[torch.argsort(rank, stable=True)[:n]]
    return chosen[torch.randperm(n, generator=generator)]


def members_of(y: Labels, classes: tuple[str, ...], names: tuple[str, ...]) -> tuple[Tensor, Tensor]:
    """Indices of the images of the named classes, and their labels renumbered in the order given."""
    for name in names:
        if name not in classes:
            hint = "" if len(classes) <= 20 else f"There are {len(classes)} classes."
            raise unknown_name("class", name, classes, hint=hint)
    if not names or len(set(names)) < len(names):
        raise InvalidInput(
            f"classes must be named once each, at least one; got {', '.join(names) or 'none'}."
        )
    renumbered = torch.full((len(classes),), -1)
    renumbered[torch.tensor([classes.index(name) for name in names])] = torch.arange(len(names))
    labels = renumbered[y]
    keep = (labels >= 0).nonzero().flatten()
    counts = torch.bincount(labels[keep], minlength=len(names))
    if (counts == 0).any():
        missing = names[int((counts == 0).nonzero()[0])]
        raise InvalidInput(f"No image of class {missing!r} is present; choose another class or split.")
    return keep, labels[keep]


def _rebuild(x: np.ndarray, y: np.ndarray, classes: tuple[str, ...], meta: dict[str, Any]) -> ImageData:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return ImageData(torch.from_numpy(x), torch.from_numpy(y), classes, meta)
