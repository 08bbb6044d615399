"""The MATLAB files of SVHN."""

import math
from pathlib import Path

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import FAILURES, demand_room, reason_of
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
    from scipy.io import loadmat, whosmat  # imported when needed: 100 ms
    from scipy.io.matlab import MatReadError

    try:
        listed = {name: (shape, kind) for name, shape, kind in whosmat(file)}
        sizes = [math.prod(shape) * (1 if kind == "uint8" else 8) for shape, kind in listed.values()]
        demand_room(file, sum(sizes))
        body = loadmat(file, variable_names=["X", "y"])
    except InvalidInput:
        raise
    except (MatReadError, *FAILURES) as error:
        raise InvalidInput(
            f"{file} is truncated or not a MAT file of version 5 ({reason_of(error)}). Get a fresh copy."
        ) from error
    x, y = body.get("X"), body.get("y")
    if x is None or y is None or x.dtype != np.uint8 or x.ndim != 4 or x.shape[3] != y.size:
        raise InvalidInput(f"{file} must hold bytes `X` (h w c n) and `y` (n).")
    return stored_images(x, y.reshape(-1).astype(np.int64) % len(classes), classes, order="h w c n")
