"""The idx files of MNIST and its kin, plain or gzipped."""

import math
import zlib
from pathlib import Path

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import gunzipped, read_bytes
from firstlight.data.cache import Splits, stored_images
from firstlight.data.entries import Reader
from firstlight.data.formats.folder import found_file

_BYTES = 8  # the idx code for unsigned bytes, the only type image sets use


def idx_array(path: Path) -> np.ndarray:
    """Read one idx file of bytes.

    The layout is two zero bytes, the type, the number of axes, each axis as four bytes (highest first),
    then the values.
    """
    raw = read_bytes(path)
    if raw[:2] == b"\x1f\x8b":
        try:
            raw = gunzipped(path, raw)
        except (EOFError, zlib.error) as error:
            raise InvalidInput(f"{path} is truncated or damaged ({error}). Get a fresh copy.") from error
    if len(raw) < 4 or raw[:2] != b"\0\0" or raw[2] != _BYTES:
        raise InvalidInput(
            f"{path} must be an idx file of bytes; it starts with {raw[:4].hex() or 'nothing'}."
        )
    start = 4 + 4 * raw[3]
    shape = [int.from_bytes(raw[i : i + 4], "big") for i in range(4, start, 4)]
    if len(raw) != start + math.prod(shape):
        raise InvalidInput(
            f"{path} is truncated or damaged: its header promises {math.prod(shape)} values, "
            f"but {max(len(raw) - start, 0)} follow. Get a fresh copy."
        )
    return np.frombuffer(raw, np.uint8, offset=start).reshape(shape)


def idx_reader(
    classes: tuple[str, ...],
    *,
    prefixes: tuple[tuple[str, str], ...] = (("train", "train"), ("test", "t10k")),
    order: str = "n h w",
    first_label: int = 0,
) -> Reader:
    """Return a reader of a folder of four idx files.

    Parameters
    ----------
    classes : tuple of str
        Names in label order.
    prefixes : tuple of tuple of 2 str
        Split and how its file names begin.
    order : str, default 'n h w'
        Axes of the image file; EMNIST's are transposed.
    first_label : int, default 0
        The number of the first class; EMNIST letters count from one.
    """

    def read(folder: Path) -> Splits | None:
        splits: Splits = {}
        for split, prefix in prefixes:
            images = _member(folder, f"{prefix}-images", "idx3")
            labels = _member(folder, f"{prefix}-labels", "idx1")
            if images is None or labels is None:
                if images or labels or splits:
                    wanted = f"{prefix}-images-idx3-ubyte and {prefix}-labels-idx1-ubyte"
                    raise InvalidInput(f"{folder} must hold {wanted} (.gz or not); one is missing.")
                return None
            x, y = idx_array(images), idx_array(labels)
            if x.ndim != 3 or y.ndim != 1 or len(x) != len(y):
                raise InvalidInput(
                    f"{images.name} and {labels.name} do not belong together: {x.shape}, {y.shape}."
                )
            splits[split] = stored_images(x, y.astype(np.int64) - first_label, classes, order=order)
        return splits

    return read


def _member(folder: Path, stem: str, kind: str) -> Path | None:
    names = [f"{stem}{mark}{kind}-ubyte" for mark in "-."]
    return found_file(folder, *names, *(f"{name}.gz" for name in names))
