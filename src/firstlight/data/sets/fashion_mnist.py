"""Fashion-MNIST: pieces of clothing, in the form of MNIST.

The npm package `fashion-mnist` is not used: it mixes the official training and test images in a new
order, and about one in twelve of its images has other pixels than the original.
"""

from pathlib import Path

from firstlight._internal.errors import DataUnavailable
from firstlight.data.cache import Splits
from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.fetching.packages import debian_files, demand_sha256
from firstlight.data.formats.idx import idx_reader

CLASSES = (
    "t-shirt", "trouser", "pullover", "dress", "coat", "sandal", "shirt", "sneaker", "bag", "ankle boot",
)  # fmt: skip
PACKAGE = "dataset-fashion-mnist"
FOLDER = Path("usr/share/datasets/fashion-mnist")
SHA256 = {
    "train-images-idx3-ubyte.gz": "b0564c3eedabfbf835052cff8503ea422014ce006caf5b757f851416ee8300c7",
    "train-labels-idx1-ubyte.gz": "0ae29f65d86684f32d1b9c85147786c547b9c6aebcaf235f0400a0cce308b056",
    "t10k-images-idx3-ubyte.gz": "cc1d090a38ace84dfa1aa66e3ada7c336ef481a96936906477e6dd344da56eaa",
    "t10k-labels-idx1-ubyte.gz": "8d3605d196f4be44669e46906da9733c8131fef761fdbfec72c424d5222f1a05",
}
_read = idx_reader(CLASSES)


def from_installed(root: Path, sha256: dict[str, str]) -> Splits:
    """Read the files of the Debian package below `root`, if they are the ones we know."""
    folder = root / FOLDER
    for name, expected in sha256.items():
        if not (folder / name).is_file():
            raise DataUnavailable(f"the Debian package {PACKAGE} is not installed")
        demand_sha256(folder / name, expected)
    splits = _read(folder)
    assert splits is not None
    return splits


def from_debian(sha256: dict[str, str]) -> Splits:
    """Download the Debian package without installing it."""
    with debian_files(PACKAGE, size=30_900_652) as root:
        return from_installed(root, sha256)


@register_dataset
def fashion_mnist() -> DataSet:
    """Describe Fashion-MNIST."""
    return DataSet(
        name="fashion_mnist",
        summary="70 000 pieces of clothing in grey",
        shape=(1, 28, 28),
        classes=CLASSES,
        counts={"train": 60_000, "test": 10_000},
        licence="MIT; Zalando SE, 2017.",
        where=f"Debian {PACKAGE}, 31 MB",
        formats="the four files {train,t10k}-{images-idx3,labels-idx1}-ubyte.gz",
        readers=(_read,),
        fetchers=(lambda: from_installed(Path("/"), SHA256), lambda: from_debian(SHA256)),
        torchvision=("FashionMNIST", ({},)),
    )
