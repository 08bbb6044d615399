"""STL-10: larger photographs, few of them labelled."""

from pathlib import Path

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight.data.cache import Splits, stored_images
from firstlight.data.entries import DataSet, Reader, register_dataset
from firstlight.data.formats.folder import found_file

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


CLASSES = ("airplane", "bird", "car", "cat", "deer", "dog", "horse", "monkey", "ship", "truck")


@register_dataset
def stl10() -> DataSet:
    """Describe the labelled part."""
    return DataSet(
        name="stl10",
        summary="13 000 colour photographs of ten kinds of things, 96 x 96",
        shape=(3, 96, 96),
        classes=CLASSES,
        counts={"train": 5_000, "test": 8_000},
        licence="pictures from ImageNet, research use; Coates, Ng, Lee, 2011.",
        where="your copy, or torchvision",
        formats="stl10_binary.tar.gz, or its folder with {train,test}_{X,y}.bin",
        readers=(stl_reader(CLASSES),),
        torchvision=("STL10", ({},)),
    )
