"""Any way in which people hold images, as `ImageData`."""

import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias, TypeGuard

import numpy as np
import torch
from PIL import Image
from torch import Tensor
from torch.utils.data import DataLoader

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.data.catalogue import load
from firstlight.data.formats.pictures import AS_THEY_ARE, BrokenPicture, Decoding, picture, prepared
from firstlight.data.images import ImageData, even_sample

ImagesLike: TypeAlias = Any
"""What `as_images` accepts. Data sets of other packages share no base class, so it is checked at run time."""

_IMAGE_KEYS = ("image", "img", "images", "pixel_values", "picture", "x", "input", "inputs")
_LABEL_KEYS = ("label", "labels", "y", "target", "targets", "fine_label", "class")
_CHANNELS = (1, 3)


def as_images(
    images: ImagesLike,
    labels: Sequence[Any] | Tensor | np.ndarray | None = None,
    *,
    n: int | None = None,
    seed: int = 0,
    size: int | None = None,
    crop: bool = True,
    channels: int | None = None,
    skip_broken: bool = False,
) -> ImageData:
    """Convert images in any common form to `ImageData`.

    Parameters
    ----------
    images : ImageData, Tensor, array, str, Path, Dataset, DataLoader or iterable
        One of: images as ``n c h w`` (arrays also ``n h w c`` or ``n h w``); a pair of images and labels;
        a list of pictures, arrays or file names; a torch `Dataset` or `DataLoader`, whose items are
        images, tuples that begin with image and label, or dictionaries; rows of a Hugging Face data set;
        a folder, an npz file, or the name of a data set. Bytes are scaled to [0, 1]; floats are taken as
        they are.
    labels : sequence, optional
        Class of every image, as numbers or words, if `images` does not hold them.
    n : int, optional
        Take this many images: evenly over the classes where labels are known beforehand, at random where
        images can be picked by number, and the first ones of a stream. Only these are decoded.
    seed : int, default 0
        Seed of that draw.
    size, crop, channels, skip_broken
        How to decode pictures, see :func:`firstlight.data.load_splits`.

    Returns
    -------
    ImageData
        With `is_labelled` False if there were no labels.

    Examples
    --------
    >>> import numpy as np
    >>> as_images([{"image": np.zeros((4, 4, 3), np.uint8), "label": "cat"}])
    ImageData(1 image of 3x4x4, 1 class)
    """
    decoding = Decoding(size=size, crop=crop, channels=channels, skip_broken=skip_broken)
    if isinstance(images, str | Path):
        return load(
            images, None, n=n, seed=seed, size=size, crop=crop, channels=channels, skip_broken=skip_broken
        )
    if isinstance(images, ImageData):
        return images if n is None else images.sample(n, seed=seed)
    if isinstance(images, tuple) and len(images) == 2 and labels is None and _is_batch(images[0]):
        images, labels = images
    if _is_batch(images):
        data = _joined([_Batch(_pixels(images), _plain_labels(labels))], ())
        return data if n is None else data.sample(n, seed=seed)
    if isinstance(images, Tensor | np.ndarray):
        raise _not_images(images)
    if isinstance(images, DataLoader):
        return _from_stream(images, n, _class_names(images.dataset))
    if hasattr(images, "__getitem__") and hasattr(images, "__len__") and not isinstance(images, Mapping):
        return _from_items(images, labels, n, seed, decoding)
    if isinstance(images, Iterable) and not isinstance(images, Mapping | bytes):
        return _from_stream(images, n, ())
    raise _not_images(images)


def tensor_or_images(data: ImagesLike) -> ImageData | Tensor:
    """Images with labels as `ImageData`, without labels as a tensor; tensors are left as they are."""
    images = data if isinstance(data, Tensor) else as_images(data)
    return images if isinstance(images, Tensor) or images.is_labelled else images.x


def image_batches(data: ImagesLike) -> ImageData | Tensor | Iterator[Tensor]:
    """As :func:`tensor_or_images`, but loaders and other streams of batches stay streams, without labels.

    For measures whose memory does not depend on the number of images.
    """
    if isinstance(data, list) and data:
        first = _parted(data[0])[0]
        is_stream = isinstance(first, Tensor) and first.ndim != 3  # three axes are one image
    else:
        is_stream = isinstance(data, DataLoader | Iterator)
    return (_parted(batch)[0] for batch in data) if is_stream else tensor_or_images(data)


@dataclass(frozen=True)
class _Batch:
    """Some images ``n c h w``, with their labels if they have any."""

    x: Tensor
    labels: list[Any] | None


def _from_stream(batches: Iterable[Any], n: int | None, classes: tuple[str, ...]) -> ImageData:
    """Read batches, or single images, until there are `n`."""
    parts: list[_Batch] = []
    left = n
    for item in batches:
        image, label = _parted(item)
        batch = (
            _Batch(_pixels(image), _plain_labels(label))
            if _is_batch(image)
            else _Batch(_one(image, AS_THEY_ARE)[None], None if label is None else [_plain(label)])
        )
        if left is not None:
            labels = None if batch.labels is None else batch.labels[:left]
            batch = _Batch(batch.x[:left], labels)
            left -= len(batch.x)
        parts.append(batch)
        if left == 0:
            break
    return _joined(parts, classes)


def _from_items(
    items: Any,
    labels: Sequence[Any] | Tensor | np.ndarray | None,
    n: int | None,
    seed: int,
    decoding: Decoding,
) -> ImageData:
    """Choose items by number, then read them."""
    count = len(items)
    if count == 0:
        raise InvalidInput("`images` must hold at least one image; it is empty.")
    given = _plain_labels(labels)
    if given is not None and len(given) != count:
        raise InvalidInput(f"`labels` must hold one label per image, {count}; got {len(given)}.")
    parts, files = [], []
    for index in _chosen(count, given if given is not None else _known_labels(items), n, seed):
        image, label = _parted(items[index])
        label = label if given is None else given[index]
        try:
            x = _one(image, decoding)[None]
        except BrokenPicture:
            if not decoding.skip_broken:
                raise
            continue
        parts.append(_Batch(x, None if label is None else [_plain(label)]))
        files.append(_file_of(items, index, image))
    return _joined(parts, _class_names(items), tuple(files) if all(files) else ())


def _chosen(count: int, labels: list[Any] | None, n: int | None, seed: int) -> Iterator[int]:
    if n is None:
        return iter(range(count))
    if labels is not None:
        names = sorted(set(labels))
        y = torch.tensor([names.index(label) for label in labels])
        return iter(even_sample(y, n, n_classes=len(names), seed=seed).tolist())
    if not 1 <= n <= count:
        raise InvalidInput(f"`n` must lie in 1 .. {count}, the number of images; got n={n}.")
    order = torch.randperm(count, generator=generator_from("sample", seed)).tolist()
    return islice(order, n)


def _parted(item: Any) -> tuple[Any, Any]:
    """Image and label of an item: a dictionary, a tuple, or the image alone."""
    if isinstance(item, Mapping):
        image = next((item[key] for key in _IMAGE_KEYS if key in item), None)
        if image is None:
            raise InvalidInput(
                f"A row of `images` must have an entry {' or '.join(map(repr, _IMAGE_KEYS[:2]))}; it has "
                f"{', '.join(map(repr, item)) or 'none'}. Rename the one that holds the image."
            )
        return image, next((item[key] for key in _LABEL_KEYS if key in item), None)
    if isinstance(item, tuple | list) and item:
        return item[0], item[1] if len(item) > 1 else None
    return item, None


def _one(image: Any, decoding: Decoding) -> Tensor:
    """One image as floats ``c h w``."""
    if isinstance(image, Mapping):  # an undecoded picture of a Hugging Face data set
        image = io.BytesIO(image["bytes"]) if image.get("bytes") else image.get("path")
    if isinstance(image, str | Path):
        return _scaled(torch.from_numpy(picture(Path(image), decoding).copy())).permute(2, 0, 1)
    if isinstance(image, io.BytesIO):
        image = Image.open(image)
    if isinstance(image, Image.Image):
        pixels = prepared(image, decoding, name=str(getattr(image, "filename", "")) or "a picture")
        return _scaled(torch.from_numpy(pixels.copy())).permute(2, 0, 1)
    if isinstance(image, Tensor | np.ndarray) and image.ndim in (2, 3):
        return _pixels(image[None])[0]
    raise _not_images(image)


def _is_batch(images: Any) -> TypeGuard[Tensor | np.ndarray]:
    if isinstance(images, Tensor):
        return images.ndim == 4
    return isinstance(images, np.ndarray) and images.dtype != object and images.ndim in (3, 4)


def _pixels(images: Tensor | np.ndarray) -> Tensor:
    """Floats ``n c h w`` from a tensor, or from an array whose channels may come last or be missing."""
    x = torch.from_numpy(np.ascontiguousarray(images)) if isinstance(images, np.ndarray) else images.detach()
    if x.ndim == 3:
        x = x[:, None]
    elif isinstance(images, np.ndarray) and x.shape[3] in _CHANNELS and x.shape[1] not in _CHANNELS:
        x = x.permute(0, 3, 1, 2)
    return _scaled(x).contiguous()


def _scaled(x: Tensor) -> Tensor:
    if x.dtype == torch.uint8:
        return x.float() / 255
    if x.is_floating_point():
        return x
    raise InvalidInput(f"Pixels must be bytes (0 to 255) or floats; got {x.dtype}. Convert them first.")


def _joined(parts: list[_Batch], classes: tuple[str, ...], files: tuple[str, ...] = ()) -> ImageData:
    if not parts:
        raise InvalidInput("`images` must hold at least one image; it is empty.")
    if {part.x.shape[1] for part in parts} == {1, 3}:  # grey pictures among coloured ones
        parts = [_Batch(part.x.expand(-1, 3, -1, -1), part.labels) for part in parts]
    shapes = {tuple(part.x.shape[1:]) for part in parts}
    if len(shapes) > 1:
        raise InvalidInput(
            f"All images must have one shape; got {' and '.join(map(str, sorted(shapes)[:2]))} (channels, "
            "height, width). Give `size` and `channels` to convert pictures."
        )
    x = torch.cat([part.x for part in parts])
    if any(part.labels is None for part in parts):
        return ImageData(x, torch.zeros(len(x)).long(), ("unlabelled",), {"labelled": False}, files)
    labels = [label for part in parts for label in part.labels or []]
    y, names = _numbered(labels, classes)
    return ImageData(x, y, names, {}, files)


def _numbered(labels: list[Any], classes: tuple[str, ...]) -> tuple[Tensor, tuple[str, ...]]:
    """Class numbers and names; words are numbered in the order of `classes`, or sorted."""
    if all(isinstance(label, str) for label in labels):
        names = classes if set(labels) <= set(classes) else tuple(sorted(set(labels)))
        number = {name: i for i, name in enumerate(names)}
        return torch.tensor([number[label] for label in labels]), names
    if not all(isinstance(label, int) and label >= 0 for label in labels):
        raise InvalidInput(
            f"Labels must be class numbers 0, 1, 2, ... or words; got {labels[0]!r} and the like. "
            "Give them as `labels`."
        )
    highest = max(labels)
    names = classes if len(classes) > highest else tuple(map(str, range(highest + 1)))
    return torch.tensor(labels), names


def _plain_labels(labels: Any) -> list[Any] | None:
    return None if labels is None else [_plain(label) for label in labels]


def _plain(label: Any) -> Any:
    if isinstance(label, Tensor):
        return label.item() if label.numel() == 1 else label
    if isinstance(label, np.ndarray | np.generic):
        return label.item() if label.size == 1 else label
    return label


def _known_labels(items: Any) -> list[Any] | None:
    """Labels that a data set tells without reading its images."""
    for name in ("targets", "labels", "y"):
        known = getattr(items, name, None)
        if isinstance(known, Sequence | Tensor | np.ndarray) and len(known) == len(items):
            return _plain_labels(known)
    if isinstance(items, list) and items and all(isinstance(item, Mapping) for item in items):
        labels = [next((item[key] for key in _LABEL_KEYS if key in item), None) for item in items]
        return None if any(label is None for label in labels) else _plain_labels(labels)
    for name in _LABEL_KEYS:
        if name in (getattr(items, "column_names", None) or ()):
            return _plain_labels(items[name])
    return None


def _class_names(items: Any) -> tuple[str, ...]:
    """Names of the classes, as torchvision and Hugging Face keep them."""
    names = getattr(items, "classes", None)
    features = getattr(items, "features", None)
    if names is None and isinstance(features, Mapping):
        names = next((getattr(features[k], "names", None) for k in _LABEL_KEYS if k in features), None)
    return tuple(map(str, names)) if isinstance(names, Sequence) else ()


def _file_of(items: Any, index: int, image: Any) -> str:
    """File of one image: its own name, or what an `ImageFolder` knows."""
    if isinstance(image, str | Path):
        return str(image)
    if isinstance(image, Mapping):
        return str(image.get("path") or "")
    samples = getattr(items, "samples", None)
    if isinstance(samples, Sequence) and len(samples) == len(items):
        return str(samples[index][0])
    return str(getattr(image, "filename", "") or "")


def _not_images(given: Any) -> InvalidInput:
    shape = f" of shape {tuple(given.shape)}" if isinstance(given, Tensor | np.ndarray) else ""
    return InvalidInput(
        "`images` must be a tensor or array (n c h w), a list of pictures, a torch Dataset or DataLoader, rows "
        "with an image and a label, a folder, an npz file, or the name of a data set; got "
        f"{type(given).__name__}{shape}."
    )
