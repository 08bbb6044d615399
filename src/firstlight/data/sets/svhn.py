"""SVHN: house numbers from street views, cropped to one digit."""

from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.formats.mat import mat_reader

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
