"""CIFAR-100: a hundred kinds of things in twenty groups."""

from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.formats.cifar_pickles import cifar_reader

GROUPS = {
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
CLASSES = tuple(sorted(name for names in GROUPS.values() for name in names))


@register_dataset
def cifar100() -> DataSet:
    """Describe CIFAR-100 with its fine labels; the coarse ones name groups of classes."""
    return DataSet(
        name="cifar100",
        summary="60 000 colour photographs of a hundred kinds of things",
        shape=(3, 32, 32),
        classes=CLASSES,
        counts={"train": 50_000, "test": 10_000},
        licence="free for research, no formal licence; Krizhevsky, 2009.",
        where="your copy, or torchvision",
        formats="the python version: cifar-100-python.tar.gz, or its folder with train, test and meta",
        readers=(
            cifar_reader(
                CLASSES, files={"train": ("train",), "test": ("test",)}, labels="fine_labels", sign="meta"
            ),
        ),
        torchvision=("CIFAR100", ({},)),
        groups=GROUPS,
    )
