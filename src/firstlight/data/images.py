"""The one container for labelled images, and those of them that a page shows."""

import dataclasses
import hashlib
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
import torch
from jaxtyping import Int, Int64
from torch import Tensor

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight._internal.shapes import Images, Labels


@dataclass(frozen=True, eq=False, repr=False)
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
        Further facts, such as ``{"name": "cifar10", "split": "train"}``; interventions add their own.
    files : tuple of str, default ()
        The file of every image, where each has one of its own; they stay with the images that `take`,
        `sample` and `only` choose.
    positions : integer Tensor of shape (n,), optional
        Where every image stands in the data set it was chosen from; they stay with the images too. None
        means that nothing was chosen yet.

    Examples
    --------
    >>> data = ImageData(torch.zeros(4, 1, 2, 2), torch.tensor([0, 1, 0, 1]), ("cat", "dog"))
    >>> len(data), data.shape, data.counts.tolist()
    (4, (1, 2, 2), [2, 2])
    >>> data
    ImageData(4 images of 1x2x2, 2 classes)
    """

    x: Images
    y: Labels
    classes: tuple[str, ...]
    meta: dict[str, Any] = field(default_factory=dict)
    files: tuple[str, ...] = ()
    positions: Int[Tensor, " n"] | None = None

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
        if self.files and len(self.files) != len(self.x):
            raise InvalidInput(
                f"`files` must name one file per image, {len(self.x)}, or none; got {len(self.files)}."
            )

        if self.positions is not None and len(self.positions) != len(self.x):
            raise InvalidInput(
                f"`positions` must have one entry per image, {len(self.x)}; got {len(self.positions)}."
            )

    def __len__(self) -> int:
        return len(self.x)

    def __repr__(self) -> str:
        origin = " ".join(str(self.meta[key]) for key in ("name", "split") if key in self.meta)
        size = "x".join(map(str, self.shape))
        images = f"{len(self)} image{'s' if len(self) != 1 else ''} of {size}"
        classes = f"{self.n_classes} class{'es' if self.n_classes != 1 else ''}"
        return f"ImageData({origin + ': ' if origin else ''}{images}, {classes if self.is_labelled else 'no labels'})"

    @property
    def origin(self) -> Int[Tensor, " n"]:
        """Where every image stands in the data set it was first chosen from."""
        return torch.arange(len(self)) if self.positions is None else self.positions

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, c, h, w = self.x.shape
        return c, h, w

    @property
    def n_classes(self) -> int:
        """Number of classes."""
        return len(self.classes)

    @property
    def is_labelled(self) -> bool:
        """Whether the labels mean anything; False for images that came without."""
        return bool(self.meta.get("labelled", True))

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
        places = index.nonzero().flatten() if index.dtype == torch.bool else index
        files = tuple(self.files[i] for i in places.tolist()) if self.files else ()
        return self.replace(x=self.x[index], y=self.y[index], files=files, positions=self.origin[places])

    def sample(self, n: int, *, seed: int) -> "ImageData":
        """Draw `n` images without replacement, as evenly over the classes as their sizes allow.

        The order is random, so any prefix is a fair sample too.
        """
        return self.take(even_sample(self.y, n, n_classes=self.n_classes, seed=seed))

    def only(self, *names: str) -> "ImageData":
        """Keep the named classes, renumbered in the order given."""
        keep, y = members_of(self.y, self.classes, names)
        return dataclasses.replace(self.take(keep), y=y, classes=names)

    def scaled(
        self, mean: Sequence[float] | None = None, std: Sequence[float] | None = None, *, bgr: bool = False
    ) -> "ImageData":
        """Copy with the pixels that a model expects: ``(x - mean) / std``.

        Parameters
        ----------
        mean, std : sequence of float, optional
            One number for all channels, or one per channel in the order that the model reads; by default
            0 and 1. Of pixels between 0 and 1 the mean lies there too.
        bgr : bool, default False
            Whether the model reads blue before red: the channels are reversed first.
        """
        c = self.shape[0]
        if bgr and c != 3:
            raise InvalidInput(f"`bgr` needs images of 3 channels; these have {c}.")
        if mean is None and std is None and not bgr:
            return self
        shift, factor = _per_channel("mean", mean or [0.0], c), _per_channel("std", std or [1.0], c)
        if float(shift.abs().max()) > 1 and float(self.x.min()) >= 0 and float(self.x.max()) <= 1:
            raise InvalidInput(
                f"`mean` must lie between 0 and 1, as the pixels do; got {list(mean or [])}. Divide `mean` and `std` "
                "by 255 if they are those of pixels from 0 to 255."
            )
        settings = {"mean": shift.flatten().tolist(), "std": factor.flatten().tolist(), "bgr": bgr}
        return self.map(lambda x: ((x.flip(1) if bgr else x) - shift) / factor, scaled=settings)

    def unscaled(self) -> "ImageData":
        """Copy with the pixels as they were before :meth:`scaled`, up to rounding."""
        if not (settings := self.meta.get("scaled")):
            return self
        shift, factor = (torch.tensor(settings[name]).reshape(-1, 1, 1) for name in ("mean", "std"))
        # what lay in [0, 1] does so again: rounding moves it by less than this
        x = self.x * factor + shift
        x = torch.where((x - x.round()).abs() < 1e-5, x.round(), x)
        return self.replace(x=x.flip(1) if settings["bgr"] else x, meta={"scaled": None})

    def __reduce__(self) -> tuple[Any, ...]:
        # as NumPy arrays, so that joblib shares large ones between processes by memory map
        return _rebuild, (self.x.numpy(), self.y.numpy(), self.classes, self.meta, self.files, self.positions)


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


def _per_channel(name: str, values: Sequence[float], channels: int) -> Tensor:
    if len(values) not in (1, channels) or (name == "std" and min(values) <= 0):
        raise InvalidInput(
            f"`{name}` must be one number or one for each of {channels} channels"
            f"{', all positive' if name == 'std' else ''}; got {list(values)}."
        )
    return torch.tensor(values).reshape(-1, 1, 1)


def _rebuild(
    x: np.ndarray,
    y: np.ndarray,
    classes: tuple[str, ...],
    meta: dict[str, Any],
    files: tuple[str, ...],
    positions: Tensor | None,
) -> ImageData:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="The given NumPy array is not writable")
        return ImageData(torch.from_numpy(x), torch.from_numpy(y), classes, meta, files, positions)


def held_out(
    y: Int64[Tensor, " n"], *, n_classes: int, share: float, seed: int
) -> tuple[Int64[Tensor, " kept"], Int64[Tensor, " held"]]:
    """Indices of the training images and of the images held out, in the order of the images.

    If a class has at least two images, at least one is held out and at least one is kept.

    Parameters
    ----------
    y : int64 Tensor of shape (n,)
        Class index of every image.
    n_classes : int
        Number of classes.
    share : float
        Share of every class to hold out, between 0 and 1.
    seed : int
        Seed of the draw.

    Examples
    --------
    >>> kept, held = held_out(torch.tensor([0] * 10 + [1] * 5), n_classes=2, share=0.2, seed=0)
    >>> len(kept), len(held)
    (12, 3)
    """
    if not 0 < share < 1:
        raise InvalidInput(f"`share` must lie between 0 and 1; got share={share}.")
    generator = generator_from("held out", seed)
    is_held = torch.zeros(len(y), dtype=torch.bool)
    for label in range(n_classes):
        members = (y == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator)
        count = min(max(1, round(share * len(members))), len(members) - 1)
        is_held[members[order[: max(count, 0)]]] = True
    if not is_held.any():
        raise InvalidInput(
            "A test split needs at least two images of some class; every class has one. Add images."
        )
    return (~is_held).nonzero().flatten(), is_held.nonzero().flatten()


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
