"""STL-10: larger photographs, few of them labelled."""

from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.formats.stl_binary import stl_reader

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
