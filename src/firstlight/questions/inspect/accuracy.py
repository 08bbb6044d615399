"""Is the network right more often than chance? Without that, nothing else that is measured means anything."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.autograd.model_outputs import OutputName, run
from firstlight._internal.autograd.model_state import evaluating
from firstlight._internal.result import Result
from firstlight.data.images import ImageData
from firstlight.maths.correlation import Interval, share_interval
from firstlight.training.loop import predictions

N_SMALL, N_LARGE = 1000, 100  # images, below and above 128 x 128 pixels
N_TRIED = 200  # images for every normalisation that is tried
FEWEST = 50  # on fewer images than these, no accuracy is called chance
PIXEL_SPREAD = (
    0.02,
    130.0,
)  # of [0, 1] over ImageNet's deviation to 0..255: what networks are trained on lies within
PIXEL_MEAN = 150.0

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
        Normalisations that were tried because the network is no better than chance.
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


def outcome(
    model: nn.Module, data: ImageData | Tensor, *, output_part: OutputName = None, seed: int = 0
) -> Outcome:
    """Accuracy of a network with its interval; if that is chance, known normalisations of the pixels are tried.

    Parameters
    ----------
    model : torch.nn.Module
        Maps images to one output per class.
    data : ImageData or Tensor
        Images as the model expects them.
    output_part : int, str or callable, optional
        If given, the accuracy is unknown, as it is where the model has more or fewer outputs than there are classes.
    seed : int, default 0
        Seed for the choice of images.
    """
    x = data.x if isinstance(data, ImageData) else data
    pixels = pixel_fault(x)
    if (
        not isinstance(data, ImageData)
        or output_part is not None
        or _n_outputs(model, x[:1]) != data.n_classes
    ):
        return Outcome(accuracy=None, n_images=0, chance=_chance(data), pixels=pixels)
    count = N_LARGE if x[0, 0].numel() > 128**2 else N_SMALL
    some = data.sample(min(count, len(data)), seed=seed)
    known = Outcome(accuracy=_accuracy(model, some), n_images=len(some), chance=_chance(some), pixels=pixels)
    if not known.is_at_chance:
        return known
    tried = _tried(model, some.take(torch.arange(min(N_TRIED, len(some)))))
    return Outcome(
        accuracy=known.accuracy, n_images=len(some), chance=known.chance, pixels=pixels, tried=tried
    )


def pixel_fault(x: Tensor) -> str:
    """What is implausible about the scale of the pixels, in words; empty if nothing is.

    Examples
    --------
    >>> pixel_fault(torch.rand(4, 3, 8, 8))
    ''
    >>> pixel_fault(torch.linspace(0, 1, 100).reshape(1, 1, 10, 10) / 125)
    'Its pixels have mean 0.004 and deviation 0.002, which no common normalisation gives.'
    """
    std, mean = (float(value) for value in torch.std_mean(x[:N_TRIED].double(), correction=0))
    if PIXEL_SPREAD[0] <= std <= PIXEL_SPREAD[1] and abs(mean) <= PIXEL_MEAN:
        return ""
    return f"Its pixels have mean {mean:.1g} and deviation {std:.1g}, which no common normalisation gives."


def _n_outputs(model: nn.Module, image: Tensor) -> int:
    """Number of outputs for one image; 0 if it is no row of numbers."""
    with torch.no_grad(), evaluating(model):
        like = next(model.parameters())
        result = run(model, image.to(like.device, like.dtype))
    return int(result.shape[1]) if isinstance(result, Tensor) and result.ndim == 2 else 0


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
