"""What the identity task trains on and what it asks about, at any size and from any data set."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.errors import DataUnavailable, InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.catalogue import load, load_splits
from firstlight.data.images import ImageData
from firstlight.data.interventions import MNIST_NORMALISATION, ChannelNormalisation
from firstlight.data.synthetic import digit_blends, patterns

LABELS = {"mnist": ("7", "3", "0")}  # the papers' training digits, in this order
OTHERS = {"mnist": "fashion_mnist", "fashion_mnist": "mnist"}
N_UNSEEN = 30
N_OTHERS = 10


@dataclass(frozen=True, kw_only=True)
class IdentityImages(Result):
    """Normalised images of one size.

    Parameters
    ----------
    training : Tensor of shape (k, c, h, w)
        What the network must reproduce.
    references : Tensor of shape (m, c, h, w)
        Values of the constant function: the training images, or their mean if there are many.
    unseen : Tensor of shape (u, c, h, w)
        Images of the same data set that were not trained on.
    others : Tensor of shape (o, c, h, w)
        Images of another data set.
    patterns : Tensor of shape (p, c, h, w)
        Drawn by rule.
    blends : Tensor of shape (b, c, h, w)
        Between the first training image and the first unseen one.
    noise : Tensor of shape (z, c, h, w)
        Independent Gaussian pixels.
    """

    training: Float[Tensor, "k c h w"]
    references: Float[Tensor, "m c h w"]
    unseen: Float[Tensor, "u c h w"]
    others: Float[Tensor, "o c h w"]
    patterns: Float[Tensor, "p c h w"]
    blends: Float[Tensor, "b c h w"]
    noise: Float[Tensor, "z c h w"]

    @property
    def groups(self) -> dict[str, Tensor]:
        """The test images by name."""
        names = ("unseen", "others", "patterns", "blends", "noise")
        return {name: getattr(self, name) for name in names}

    @property
    def shown(self) -> Float[Tensor, "s c h w"]:
        """The inputs of the picture grid: training images, then some of every group."""
        chosen = [self.training[:3], self.unseen[:5], self.blends[2:3], self.others[:3]]
        every = max(1, len(self.patterns) // 5)
        return torch.cat([*chosen, self.patterns[::every][:5], self.noise[:1]])


@lru_cache(maxsize=8)
def identity_images(
    dataset: str = "mnist",
    *,
    side: int = 14,
    examples: int | None = 1,
    labels: tuple[str, ...] = (),
    n_images: int = 2000,
    seed: int = 0,
) -> IdentityImages:
    """Draw and normalise the images of the task.

    Grey images get the papers' MNIST constants, colour images those of the data set itself. Zero
    padding stays zero, so that the border of a standardised digit carries information.

    Parameters
    ----------
    dataset : str, default 'mnist'
        Any data set of square images.
    side : int, default 14
        Images are resized to this.
    examples : int or None, default 1
        Number of training images, one of each of `labels` in turn; None takes `n_images` of all.
    labels : tuple of str, default ()
        Classes of the training images; MNIST begins with 7, 3, 0, others with their first classes.
    n_images : int, default 2000
        How many images to draw from, and to train on if `examples` is None.
    seed : int, default 0
        Decides the draws.
    """
    pool, test = load_splits(dataset, at_most=n_images, n_test=N_UNSEEN, seed=seed)
    norm = MNIST_NORMALISATION if pool.shape[0] == 1 else ChannelNormalisation.fit(pool)
    training = pool.x if examples is None else _one_of_each(pool, examples, labels or LABELS.get(dataset, ()))
    unseen = test.x

    def ready(images: Tensor) -> Tensor:
        return norm.normalised(resized(images, side)).float()

    x, y = ready(training), ready(unseen)
    channels = pool.shape[0]
    generator = generator_from("identity noise", seed)
    return IdentityImages(
        training=x,
        references=x if len(x) <= 3 else x.mean(0, keepdim=True),
        unseen=y,
        others=ready(_others(OTHERS.get(dataset, "photos"), channels, seed)),
        patterns=ready(patterns(side, side, channels=channels, seed=seed).x),
        blends=digit_blends(x[0], y[0], torch.linspace(0, 1, 5)),
        noise=torch.randn(4, channels, side, side, generator=generator),
    )


def resized(images: Float[Tensor, "n c h w"], side: int) -> Float[Tensor, "n c side side"]:
    """Images at another size: averaged over areas when smaller, interpolated when larger."""
    if side < 1:
        raise InvalidInput(f"`side` must be at least 1 pixel; got side={side}.")
    if images.shape[-1] == images.shape[-2] == side:
        return images
    # interpolation to fewer pixels would skip lines; means over areas use all
    if side <= min(images.shape[-2:]):
        return F.interpolate(images, size=(side, side), mode="area")
    return F.interpolate(images, size=(side, side), mode="bilinear", align_corners=False)


def _one_of_each(pool: ImageData, examples: int, labels: tuple[str, ...]) -> Tensor:
    if examples < 1:
        raise InvalidInput(f"`examples` must be at least 1, or None for all; got examples={examples}.")
    names = labels or pool.classes
    chosen = []
    for i in range(examples):
        members = pool.only(names[i % len(names)]).x
        if i // len(names) >= len(members):
            raise InvalidInput(
                f"`examples`={examples} exceeds the images of class {names[i % len(names)]!r}."
            )
        chosen.append(members[i // len(names)])
    return torch.stack(chosen)


def _others(name: str, channels: int, seed: int) -> Tensor:
    try:
        data = load(name, split="test", seed=seed)
    except DataUnavailable:  # without a network the photographs of the installation serve
        data = load("photos", split="test", seed=seed)
    x = data.sample(min(N_OTHERS, len(data)), seed=seed).x
    if x.shape[1] != channels:
        x = x.mean(1, keepdim=True).expand(-1, channels, -1, -1)
    return x
