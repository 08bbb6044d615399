"""One file per data set; importing this package registers them all."""

from firstlight.data.sets import (
    celeba,
    cifar10,
    cifar100,
    emnist,
    fashion_mnist,
    folder,
    gtsrb,
    mnist,
    photos,
    photos224,
    stl10,
    subsets,
    svhn,
)

__all__ = [
    "celeba",
    "cifar10",
    "cifar100",
    "emnist",
    "fashion_mnist",
    "folder",
    "gtsrb",
    "mnist",
    "photos",
    "photos224",
    "stl10",
    "subsets",
    "svhn",
]
