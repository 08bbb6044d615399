"""The MATLAB files of SVHN."""

import zlib
from pathlib import Path

import numpy as np

from firstlight.core.errors import InvalidInput
from firstlight.data.entries import Reader
from firstlight.data.formats.finding import found_file
from firstlight.data.stored import Splits, StoredImages, stored_images


def mat_reader(classes: tuple[str, ...], *, files: dict[str, str]) -> Reader:
    """Return a reader of one MAT file per split, with `X` as h w c n and `y` where 10 means zero."""

    def read(folder: Path) -> Splits | None:
        splits: Splits = {}
        for split, name in files.items():
            file = found_file(folder, name)
            if file is None:
                if splits:
                    raise InvalidInput(
                        f"{folder} must hold {' and '.join(files.values())}; {name} is missing."
                    )
                return None
            splits[split] = _split(file, classes)
        return splits

    return read


def _split(file: Path, classes: tuple[str, ...]) -> StoredImages:
    from scipy.io import loadmat  # imported when needed: 100 ms
    from scipy.io.matlab import MatReadError

    damage = (
        ValueError, TypeError, LookupError, OSError, EOFError, NotImplementedError, zlib.error, MatReadError,
    )  # fmt: skip
    try:
        body = loadmat(file, variable_names=["X", "y"])
    except damage as error:
        raise InvalidInput(
            f"{file} is truncated or not a MAT file of version 5 ({error}). Get a fresh copy."
        ) from error
    x, y = body.get("X"), body.get("y")
    if x is None or y is None or x.dtype != np.uint8 or x.ndim != 4 or x.shape[3] != y.size:
        raise InvalidInput(f"{file} must hold bytes `X` (h w c n) and `y` (n).")
    return stored_images(x, y.reshape(-1).astype(np.int64) % len(classes), classes, order="h w c n")
