"""EMNIST letters: handwritten letters, capital and small in one class."""

from string import ascii_lowercase

from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.formats.idx import idx_reader

CLASSES = tuple(ascii_lowercase)


@register_dataset
def emnist() -> DataSet:
    """Describe the letters split. Its files hold columns first and count classes from one."""
    return DataSet(
        name="emnist",
        summary="145 600 handwritten letters",
        shape=(1, 28, 28),
        classes=CLASSES,
        counts={"train": 124_800, "test": 20_800},
        licence="public domain (NIST); Cohen and others, 2017.",
        where="your copy, or torchvision",
        formats="gzip.zip, or its emnist-letters-{train,test}-{images-idx3,labels-idx1}-ubyte.gz",
        readers=(
            idx_reader(
                CLASSES,
                prefixes=(("train", "emnist-letters-train"), ("test", "emnist-letters-test")),
                order="n w h",
                first_label=1,
            ),
        ),
        torchvision=("EMNIST", ({"split": "letters"},)),
    )
