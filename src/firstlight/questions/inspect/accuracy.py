"""Is the network right more often than chance? Without that, nothing else that is measured means anything."""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.autograd.model_outputs import OutputName
from firstlight._internal.autograd.model_state import evaluating, in_full_precision
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.maths.correlation import Interval, share_interval
from firstlight.measures.feature_ansatz.filter_activity import (
    ENOUGH_IMAGES,
    FilterActivity,
    Responses,
    block_size,
)
from firstlight.models.kinds import unwrapped
from firstlight.training.loop import predictions

LARGE_PIXELS = 128**2
N_LARGE = 100  # larger images that are shown; of smaller ones, as many as dead filters need
TRIED_SMALL, TRIED_LARGE = 200, 40  # images for every normalisation that is tried
FEWEST = 50  # on fewer images than these, no accuracy is called chance
FEW_RIGHT = 0.5  # below, other normalisations are tried: on wrong pixels a network may still beat chance
# of [0, 1] over ImageNet's deviation to 0..255: what networks are trained on lies within
PIXEL_SPREAD, PIXEL_MEAN = (0.02, 130.0), 150.0
STANDARDISED = (
    3.0  # pixels that are negative too are near mean 0 and deviation 1, or span 0..255 less its mean
)
SHIFTED_SPREAD = 20.0

NORMALISATIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "none, pixels in [0, 1]": ((0.0,), (1.0,)),
    "ImageNet": ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225)),
    "CIFAR-10": ((0.4914, 0.4822, 0.4465), (0.247, 0.2435, 0.2616)),
    "MNIST": ((0.1307,), (0.3081,)),
    "one half, pixels in [-1, 1]": ((0.5,), (0.5,)),
    "pixels in 0..255": ((0.0,), (1 / 255,)),
}
"""Mean and standard deviation that networks are commonly trained with."""


@dataclass(frozen=True, kw_only=True)
class Tried(Result):
    """A normalisation of the pixels, and how often the network is right with it."""

    name: str
    mean: tuple[float, ...]
    std: tuple[float, ...]
    accuracy: Interval

    @property
    def flags(self) -> str:
        """As they are typed."""
        mean, std = (" ".join(f"{value:.4g}" for value in values) for values in (self.mean, self.std))
        return f"--mean {mean} --std {std}"


@dataclass(frozen=True, kw_only=True)
class Outcome(Result):
    """How often the network is right.

    Parameters
    ----------
    accuracy : Interval or None
        Share of right answers; None without labels, or where outputs and classes do not correspond.
    n_images : int
        Behind it.
    chance : float
        Share of the largest class; NaN without labels.
    pixels : str
        What is implausible about the pixels, in words; empty if nothing is.
    tried : tuple of Tried
        Normalisations that were tried because the network is rarely right or its pixels are implausible.
    """

    accuracy: Interval | None
    n_images: int
    chance: float
    pixels: str = ""
    tried: tuple[Tried, ...] = ()

    @property
    def value(self) -> float:
        """Share of right answers, NaN if unknown."""
        return math.nan if self.accuracy is None else self.accuracy.value

    @property
    def is_at_chance(self) -> bool:
        """Whether so many images do not tell the network from always naming the largest class."""
        return self.accuracy is not None and self.n_images >= FEWEST and self.accuracy.low <= self.chance

    @property
    def better(self) -> Tried | None:
        """The best normalisation, if it lifts the accuracy above chance and above what it was."""
        if self.accuracy is None or not self.tried:
            return None
        best = max(self.tried, key=lambda one: one.accuracy.value)
        return best if best.accuracy.low > max(self.chance, self.accuracy.value) else None

    @property
    def problem(self) -> str:
        """Why nothing else that is measured means anything, and what to do; empty if nothing speaks against it."""
        if self.is_at_chance:
            said = f"The network classifies {self.words}: that is chance."
        elif self.better is not None:
            said = f"The network classifies {self.words}, and more with other pixels."
        elif self.accuracy is None and self.pixels:
            said = ""
        else:
            return ""
        said = f"{said} {self.pixels}".strip()
        if self.better is not None:
            best = self.better
            return (
                f"{said} With {best.flags} ({best.name}) the accuracy is {best.accuracy.value:.0%} "
                f"({best.accuracy.low:.0%} to {best.accuracy.high:.0%}): use these."
            )
        if self.tried:
            said += f" None of {len(self.tried)} known normalisations of the pixels helps."
        return f"{said} Check the scaling of the pixels, the order of the classes and the weights."

    @property
    def words(self) -> str:
        """The accuracy with its interval and with chance beside it."""
        if self.accuracy is None:
            return ""
        return (
            f"{self.accuracy.value:.0%} of {self.n_images:,} images correctly (95% interval {self.accuracy.low:.0%} to "
            f"{self.accuracy.high:.0%}; always naming the largest class gives {self.chance:.0%})"
        )


def outcome_and_activity(
    model: nn.Module,
    data: ImageData | Tensor,
    *,
    layers: str | Sequence[str] = "all",
    output_part: OutputName = None,
    seed: int = 0,
) -> tuple[Outcome, FilterActivity]:
    """How often a network is right, and which of its filters respond, from the same forward passes.

    If the accuracy is low or the pixels are implausible, known normalisations of the pixels are tried.

    Parameters
    ----------
    model : torch.nn.Module
        Maps images to one output per class.
    data : ImageData or Tensor
        Images as the model expects them; 1,000 are shown, or 100 if they are larger than 128 x 128.
    layers : str or sequence of str, default 'all'
        Whose filters: "all", "convolutions", or names of layers.
    output_part : int, str or callable, optional
        If given, the accuracy is unknown, as it is where the model has more or fewer outputs than there are classes.
    seed : int, default 0
        Seed for the choice of images.
    """
    count = min(n_shown(data), len(data))
    if isinstance(data, ImageData):
        some: ImageData | Tensor = data.sample(count, seed=seed)
    else:
        some = data[torch.randperm(len(data), generator=generator_from("filter activity", seed))[:count]]
    said, activity = _answers(model, some, layers, wanted=output_part is None)
    pixels = pixel_fault(data)
    if said is None or not isinstance(some, ImageData):
        return Outcome(accuracy=None, n_images=0, chance=_chance(data), pixels=pixels), activity
    right = share_interval(int((said == some.y.cpu()).sum()), len(some))
    known = Outcome(accuracy=right, n_images=len(some), chance=_chance(some), pixels=pixels)
    if known.is_at_chance or pixels or (len(some) >= FEWEST and right.high < FEW_RIGHT):
        n_tried = TRIED_LARGE if is_large(some.x) else TRIED_SMALL
        tried = _tried(model, some.take(torch.arange(min(n_tried, len(some)))))
        known = dataclasses.replace(known, tried=tried)
    return known, activity


def is_large(x: Tensor) -> bool:
    """Whether a forward pass of a thousand such images would take minutes."""
    return x[0, 0].numel() > LARGE_PIXELS


def n_shown(data: ImageData | Tensor) -> int:
    """Images that tell the accuracy and, at first, dead filters."""
    return N_LARGE if is_large(data.x if isinstance(data, ImageData) else data) else ENOUGH_IMAGES


def _answers(
    model: nn.Module, data: ImageData | Tensor, layers: str | Sequence[str], *, wanted: bool
) -> tuple[Tensor | None, FilterActivity]:
    """The class that the network names for every image, where it has an output for each, and which filters respond."""
    x, n_classes = (data.x, data.n_classes) if isinstance(data, ImageData) else (data, 0)
    network, _ = in_full_precision(unwrapped(model))
    said: list[Tensor] = []
    with torch.no_grad(), evaluating(network):
        responses = Responses(network, x[:1], layers=layers)
        for images in torch.split(x, block_size(x)):
            if responses.are_complete and not wanted:
                break
            outputs = responses.add(images)
            wanted = wanted and isinstance(outputs, Tensor) and outputs.shape[1:] == (n_classes,)
            if wanted:
                said.append(outputs.argmax(1).cpu())
    return torch.cat(said) if wanted else None, responses.result()


def pixel_fault(data: ImageData | Tensor) -> str:
    """What is implausible about the scale of the pixels, in words; empty if nothing is.

    Where it is known that they were scaled from [0, 1], the gaps between the common normalisations count too.

    Examples
    --------
    >>> pixel_fault(torch.rand(4, 3, 8, 8))
    ''
    >>> pixel_fault(torch.linspace(0, 1, 100).reshape(1, 1, 10, 10) / 125)
    'Its pixels have mean 0.004 and deviation 0.0023, which no common normalisation gives.'
    """
    x = (data.x if isinstance(data, ImageData) else data)[:TRIED_SMALL].double()
    std, mean = (float(value) for value in torch.std_mean(x, correction=0))
    plausible = PIXEL_SPREAD[0] <= std <= PIXEL_SPREAD[1] and abs(mean) <= PIXEL_MEAN
    if isinstance(data, ImageData) and data.meta.get("scaled") and float(x.min()) < 0:
        plausible &= max(std, abs(mean)) <= STANDARDISED or std >= SHIFTED_SPREAD
    if plausible:
        return ""
    return f"Its pixels have mean {mean:.2g} and deviation {std:.2g}, which no common normalisation gives."


def _chance(data: ImageData | Tensor) -> float:
    return float(data.counts.max()) / len(data) if isinstance(data, ImageData) else math.nan


def _accuracy(model: nn.Module, data: ImageData) -> Interval:
    dtype = next(model.parameters()).dtype
    with torch.no_grad():
        size = max(1, min(250, 2**20 // data.x[0].numel()))
        said = predictions(model, data.x.to(dtype), batch_size=size, of=lambda out: out.argmax(1))
    return share_interval(int((said.cpu() == data.y.cpu()).sum()), len(data))


def _tried(model: nn.Module, data: ImageData) -> tuple[Tried, ...]:
    """Every known normalisation of as many channels, and that by the images' own mean and deviation."""
    raw = _unscaled(data)
    if raw is None:
        return ()
    std, mean = torch.std_mean(raw.x, dim=(0, 2, 3), correction=0)
    own = (tuple(mean.tolist()), tuple(std.clamp(min=1e-3).tolist()))
    return tuple(
        Tried(name=name, mean=m, std=s, accuracy=_accuracy(model, raw.scaled(m, s)))
        for name, (m, s) in {**NORMALISATIONS, "mean and deviation of these images": own}.items()
        if len(m) in (1, raw.shape[0])
    )


def _unscaled(data: ImageData) -> ImageData | None:
    """The images with pixels in [0, 1], where that can be told."""
    raw = data.unscaled()
    low, high = float(raw.x.min()), float(raw.x.max())
    if low >= 0 and high <= 1:
        return raw
    return raw.map(lambda x: x / 255) if low >= 0 and high <= 255 else None
