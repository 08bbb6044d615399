"""The tasks of the theme: images as the paper takes them, targets, and how an answer is scored."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.result import Result
from firstlight._internal.seeds import seed_from
from firstlight.data.catalogue import load
from firstlight.data.images import ImageData
from firstlight.data.interventions.normalisation import ChannelNormalisation
from firstlight.data.interventions.placement import random_shifts


@dataclass(frozen=True, kw_only=True)
class Task:
    """Which images, how many, and what is asked about them."""

    data: str = "mnist"
    n: int = 2000  # training images
    n_valid: int = 500  # choose rates, decays and ridges; never trained on
    n_test: int = 2000
    shift: int = 0  # largest random shift in pixels, drawn once per image (E-91)
    binary: bool = False  # class 0 against the rest: one output, targets 0 and 1, threshold 1/2 (E-88)
    side: int | None = None  # enlarge the images to this side


@dataclass(frozen=True, kw_only=True)
class Part(Result):
    """Images, what to answer, and the class of each."""

    x: Float[Tensor, "n c h w"]
    targets: Float[Tensor, "n k"]
    y: Tensor

    def accuracy(self, outputs: Float[Tensor, "n k"]) -> float:
        """Share of right answers: largest output, or one output against 1/2."""
        chosen = (outputs[:, 0] > 0.5).long() if outputs.shape[1] == 1 else outputs.argmax(1)
        return float((chosen == self.y).double().mean())

    def error(self, outputs: Float[Tensor, "n k"]) -> float:
        """Squared error, summed over the outputs, mean over the images."""
        return float((outputs.double() - self.targets.double()).square().sum(1).mean())

    def to(self, dtype: torch.dtype) -> "Part":
        """The same in another precision."""
        return Part(x=self.x.to(dtype), targets=self.targets.to(dtype), y=self.y)

    @property
    def shape(self) -> tuple[int, int, int]:
        """Channels, height, width."""
        _, c, h, w = self.x.shape
        return c, h, w

    @property
    def majority(self) -> float:
        """Accuracy of always naming the most frequent class."""
        return int(self.y.bincount().max()) / len(self.y)


def parts_of(task: Task, *, seed: int) -> tuple[Part, Part, Part]:
    """Training, validation and test images; standardised by the training images, then shifted.

    The seed draws the images too, so that a spread over seeds says how far the numbers hold for other
    images. Classes are about equally frequent before they are joined to two.
    """
    drawn = load(task.data, split="train", n=task.n + task.n_valid, seed=seed)
    index = torch.arange(len(drawn))
    splits = [drawn.take(index[: task.n]), drawn.take(index[task.n :])]
    splits.append(load(task.data, split="test", n=task.n_test, seed=seed))
    scale = ChannelNormalisation.fit(splits[0])
    names = ("train", "valid", "test")
    train, valid, test = (
        _part(scale.transform(split), task, seed_from("shift", name, seed))
        for name, split in zip(names, splits, strict=True)
    )
    return train, valid, test


def _part(images: ImageData, task: Task, seed: int) -> Part:
    moved = random_shifts(images, task.shift, seed=seed) if task.shift else images
    x = moved.x if task.side is None else F.interpolate(moved.x, size=(task.side, task.side), mode="bilinear")
    if task.binary:
        is_first = (moved.y == 0).long()
        return Part(x=x, targets=is_first[:, None].to(x.dtype), y=is_first)
    return Part(x=x, targets=F.one_hot(moved.y, moved.n_classes).to(x.dtype), y=moved.y)
