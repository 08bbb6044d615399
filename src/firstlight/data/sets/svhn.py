"""SVHN: house numbers from street views, cropped to one digit."""

import math
from pathlib import Path

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import FAILURES, demand_room, reason_of
from firstlight.data.cache import Splits, StoredImages, stored_images
from firstlight.data.entries import DataSet, Reader, register_dataset
from firstlight.data.formats.folder import found_file


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


CLASSES = tuple("0123456789")
FILES = {"train": "train_32x32.mat", "test": "test_32x32.mat"}


@register_dataset
def svhn() -> DataSet:
    """Describe the cropped digits without the `extra` split."""
    return DataSet(
        name="svhn",
        summary="99 289 digits of house numbers in colour",
        shape=(3, 32, 32),
        classes=CLASSES,
        counts={"train": 73_257, "test": 26_032},
        licence="non-commercial use only; Netzer and others, 2011.",
        where="your copy, or torchvision",
        formats="train_32x32.mat and test_32x32.mat",
        readers=(mat_reader(CLASSES, files=FILES),),
        torchvision=("SVHN", ({"split": "train"}, {"split": "test"})),
    )
