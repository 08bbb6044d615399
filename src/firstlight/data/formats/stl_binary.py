"""The binary files of STL-10."""

from pathlib import Path

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight.data.entries import Reader
from firstlight.data.formats.finding import found_file
from firstlight.data.stored import Splits, stored_images

_SIDE = 96


def stl_reader(classes: tuple[str, ...]) -> Reader:
    """Return a reader of ``{train,test}_{X,y}.bin``: columns run first, labels count from one."""

    def read(folder: Path) -> Splits | None:
        splits: Splits = {}
        for split in ("train", "test"):
            pixels, labels = (found_file(folder, f"{split}_{part}.bin") for part in "Xy")
            if pixels is None or labels is None:
                if pixels or labels or splits:
                    raise InvalidInput(f"{folder} must hold {split}_X.bin and {split}_y.bin; one is missing.")
                return None
            x, y = np.fromfile(pixels, np.uint8), np.fromfile(labels, np.uint8)
            if x.size != y.size * 3 * _SIDE * _SIDE:
                raise InvalidInput(
                    f"{pixels} is truncated or damaged: {y.size} labels need {y.size * 3 * _SIDE * _SIDE} "
                    f"bytes; it has {x.size}. Get a fresh copy."
                )
            x = x.reshape(-1, 3, _SIDE, _SIDE)
            splits[split] = stored_images(x, y.astype(np.int64) - 1, classes, order="n c w h")
        return splits

    return read
