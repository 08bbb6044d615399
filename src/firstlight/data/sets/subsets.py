"""Names for parts of data sets that the papers use."""

from firstlight.data.entries import Subset, register_dataset


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
