"""What the bank holds: architecture, data and recipe of every kind of network."""

import re
from dataclasses import dataclass, field, replace

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight.data.catalogue import load
from firstlight.data.images import ImageData
from firstlight.data.interventions import random_labels
from firstlight.models.building import ModelSpec
from firstlight.training.recipe import Recipe

SCALING: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "cifar10": ((0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)),
    "mnist": ((0.1307,), (0.3081,)),
    "fashion_mnist": ((0.2860,), (0.3530,)),
}
"""Mean and standard deviation of the pixels of each data set, by channel."""

TITLES = {
    "small": "Small CNN",
    "resnet14": "ResNet-14",
    "resnet20": "ResNet-20",
    "vgg5": "VGG-5",
    "vgg7": "VGG-7",
    "cifar10": "CIFAR-10",
    "mnist": "MNIST",
    "fashion_mnist": "Fashion-MNIST",
}
"""How pages call architectures and data sets."""

LICENCES = {
    "cifar10": "CIFAR-10 states no licence; its authors ask for a citation (Krizhevsky 2009).",
    "mnist": "MNIST: CC BY-SA 3.0 (LeCun, Cortes).",
    "fashion_mnist": "Fashion-MNIST: MIT (Zalando SE 2017).",
}


@dataclass(frozen=True, kw_only=True)
class Definition:
    """Everything but the seed that decides a network of the bank.

    Parameters
    ----------
    kind : str
        Name without the seed.
    spec : ModelSpec
        Architecture and initialiser.
    data : str
        Name of the data set; its training images are used, its test images measure accuracy.
    recipe : Recipe
        How it is trained; the seed of the network replaces the recipe's.
    n_images : int, optional
        Number of training images, drawn with the network's seed; None takes all.
    random_labels : bool, default False
        Draw the labels of the training images at random.
    n_moments : int, default 2
        Moments of training whose weights are kept, at geometric steps; the last one is the trained network.
    cpu_hours : float
        What one network costs on one core, roughly.
    """

    kind: str
    spec: ModelSpec
    data: str
    recipe: Recipe
    n_images: int | None = None
    random_labels: bool = False
    n_moments: int = 2
    cpu_hours: float = field(default=1.0, compare=False)

    def training_data(self, seed: int) -> ImageData:
        """Training images as the network sees them before augmentation, with the labels it is trained on."""
        images = load(self.data, "train")
        if self.n_images is not None:
            images = images.sample(self.n_images, seed=seed)
        if self.random_labels:
            images = random_labels(images, seed=seed)
        return self._scaled(images)

    def test_data(self) -> ImageData:
        """Test images as the network sees them."""
        return self._scaled(load(self.data, "test"))

    def _scaled(self, images: ImageData) -> ImageData:
        mean, std = SCALING[self.data]
        return images.scaled(mean, std)


PLAIN = Recipe(
    lr=0.2, momentum=0.9, nesterov=True, weight_decay=5e-4, decay_vectors=False, batch_size=128, epochs=24,
    schedule="one_cycle", label_smoothing=0.1, flips=True, shifts=4, channels_last=True,
)  # fmt: skip
"""What everybody uses for small networks on CIFAR-10; a hand-written loop reached 88.8 % with it in ten epochs."""

# random labels are learned by heart: nothing may blur them, and nothing pulls the weights back
_MEMORISE = replace(
    PLAIN, lr=0.1, weight_decay=0.0, decay_vectors=True, label_smoothing=0.0, flips=False, shifts=0, epochs=80
)
_DIGITS = replace(PLAIN, flips=False, shifts=2, epochs=10)


def _spec(name: str, *, data: str = "cifar10", initialiser: str = "default", **options: object) -> ModelSpec:
    shape = (3, 32, 32) if data == "cifar10" else (1, 28, 28)
    return ModelSpec(name=name, shape=shape, initialiser=initialiser, options=dict(options))


_SMALL, _RESNET, _VGG = _spec("small", batch_norm=True), _spec("resnet20"), _spec("vgg7")
_VGG_RECIPE = replace(PLAIN, epochs=20)


# name of the kind, architecture, recipe, CPU hours, moments whose weights are kept
_ON_CIFAR10: tuple[tuple[str, ModelSpec, Recipe, float, int], ...] = (
    ("small", _SMALL, replace(PLAIN, epochs=12), 0.35, 10),
    ("resnet20", _RESNET, PLAIN, 1.1, 8),
    ("vgg7", _VGG, _VGG_RECIPE, 0.7, 3),
    ("small-random", _SMALL, replace(_MEMORISE, epochs=100), 0.25, 1),
    ("resnet20-random", _RESNET, _MEMORISE, 0.4, 1),
    ("vgg7-random", _VGG, _MEMORISE, 0.25, 1),
    ("resnet14-frozen", _spec("resnet14"), replace(PLAIN, epochs=16, frozen=("conv1.",)), 0.5, 1),
    ("resnet20-frozen", _RESNET, replace(PLAIN, frozen=("conv1.",)), 1.1, 1),
    ("vgg5-frozen", _spec("vgg5"), replace(PLAIN, epochs=16, frozen=("0.",)), 0.4, 1),
    ("vgg7-frozen", _VGG, replace(_VGG_RECIPE, frozen=("0.",)), 0.7, 1),
    ("vgg7-mse", _VGG, replace(_VGG_RECIPE, loss="mse_sum", lr=0.05, label_smoothing=0.0), 0.7, 1),
    # without batch norm a rate of 0.2 diverges, and torch's initial weights stall
    (
        "vgg7-plain",
        _spec("vgg7", initialiser="kaiming_normal", batch_norm=False),
        replace(_VGG_RECIPE, lr=0.03),
        0.6,
        1,
    ),
    ("vgg7-stem7", _spec("vgg7", stem=7), _VGG_RECIPE, 0.8, 1),
)


def _on_cifar10(name: str, spec: ModelSpec, recipe: Recipe, cpu_hours: float, n_moments: int) -> Definition:
    base, _, variant = name.partition("-")
    is_random = variant == "random"
    return Definition(
        kind="-".join(filter(None, (base, "cifar10", variant))), spec=spec, data="cifar10", recipe=recipe,
        n_images=5000 if is_random else None, random_labels=is_random, n_moments=n_moments, cpu_hours=cpu_hours,
    )  # fmt: skip


def _on_digits(data: str, recipe: Recipe) -> Definition:
    spec = _spec("small", data=data, batch_norm=True)
    return Definition(kind=f"small-{data}", spec=spec, data=data, recipe=recipe, cpu_hours=0.3)


KINDS: dict[str, Definition] = {
    one.kind: one
    for one in (
        *(_on_cifar10(*row) for row in _ON_CIFAR10),
        _on_digits("fashion_mnist", replace(_DIGITS, flips=True)),
        _on_digits("mnist", _DIGITS),
    )
}
"""Every kind of network in the bank, by name; a network is a kind and a seed, as in ``resnet20-cifar10-0``."""


def definition(name: str) -> tuple[Definition, int]:
    """Definition and seed of a network by its name.

    Examples
    --------
    >>> kind, seed = definition("resnet20-cifar10-2")
    >>> kind.spec.name, seed
    ('resnet20', 2)
    """
    split = re.fullmatch(r"(.+)-(\d{1,6})", name)
    if split is None:
        raise InvalidInput(
            f"A network is named after its kind and its seed, as in resnet20-cifar10-0; got {name!r}."
        )
    kind, seed = split.groups()
    if kind not in KINDS:
        raise unknown_name("kind of network", kind, KINDS, hint="`firstlight networks list` shows them all.")
    return KINDS[kind], int(seed)
