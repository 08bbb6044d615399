"""Changes of a data set that a theory predicts the effect of: labels drawn or shuffled, channels normalised.

Every change leaves a note in `meta`. What is fitted is fitted to the training images and applied to any split.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData

_BLOCK_ELEMENTS = 1 << 21  # 16 MB of float64 at a time


def noted(data: ImageData, name: str, /, **facts: Any) -> dict[str, Any]:
    """`meta` entry with one more intervention: its name and what decided it, in order of application."""
    return {"interventions": [*data.meta.get("interventions", []), {"name": name, **facts}]}


def parts(x: Tensor) -> Iterator[Tensor]:
    """A few images at a time, in float64."""
    size = max(1, _BLOCK_ELEMENTS // x[0].numel())
    return (x[start : start + size].double() for start in range(0, len(x), size))


def mapped(x: Tensor, function: Callable[[Tensor], Tensor]) -> Tensor:
    """Apply a function of float64 images block by block and give the result in the precision of `x`.

    The function must keep the number of images and may change their size.
    """
    return torch.cat([function(part).to(x.dtype) for part in parts(x)])


def random_labels(data: ImageData, *, seed: int) -> ImageData:
    """Replace every label by an independent uniform draw, fixed from then on."""
    y = torch.randint(data.n_classes, (len(data),), generator=generator_from("random labels", seed))
    return data.replace(y=y, meta=noted(data, "random_labels", seed=seed))


def shuffled_labels(data: ImageData, *, seed: int) -> ImageData:
    """Permute the labels once; every class keeps its size."""
    order = torch.randperm(len(data), generator=generator_from("shuffled labels", seed))
    return data.replace(y=data.y[order], meta=noted(data, "shuffled_labels", seed=seed))


@dataclass(frozen=True, kw_only=True, eq=False)
class ChannelNormalisation(Result):
    r"""Subtract a number from each channel and divide by another, :math:`x'_c = (x_c - \mu_c)/\sigma_c`.

    Parameters
    ----------
    mean : Tensor of shape (c,)
        One number per channel.
    std : Tensor of shape (c,)
        One positive number per channel.

    Examples
    --------
    >>> digits = ImageData(torch.zeros(1, 1, 2, 2), torch.zeros(1).long(), ("0",))
    >>> round(MNIST_NORMALISATION.transform(digits).x[0, 0, 0, 0].item(), 4)
    -0.4242
    """

    mean: Float[Tensor, " c"]
    std: Float[Tensor, " c"]

    @classmethod
    def fit(cls, train: ImageData) -> "ChannelNormalisation":
        """Mean and standard deviation (divided by the number of pixels) of the training images."""
        mean, std = channel_statistics(train.x)
        flat = (std <= 1e-12 * mean.abs().clamp(min=1e-300)).nonzero().flatten().tolist()
        if flat:
            raise InvalidInput(
                f"channel {flat[0]} of `train` is constant, {float(mean[flat[0]]):.4g}, and cannot be scaled "
                "to variance 1. Drop that channel."
            )
        return cls(mean=mean, std=std)

    @classmethod
    def given(cls, mean: Sequence[float], std: Sequence[float]) -> "ChannelNormalisation":
        """Take published constants instead of fitting."""
        if len(mean) != len(std) or not all(s > 0 for s in std):
            raise InvalidInput(f"`std` must hold one positive number per channel; got {std} for mean {mean}.")
        return cls(mean=torch.tensor(mean, dtype=torch.float64), std=torch.tensor(std, dtype=torch.float64))

    def transform(self, data: ImageData) -> ImageData:
        """Normalised copy of any split."""
        channels = data.shape[0]
        if channels != len(self.mean):
            raise InvalidInput(f"`data` must have {len(self.mean)} channels; got {channels}.")
        note = noted(data, "channel_normalisation", mean=self.mean.tolist(), std=self.std.tolist())
        return data.replace(x=mapped(data.x, self.normalised), meta=note)

    def normalised(self, images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        """Apply the same to bare images."""
        return (images - self.mean[:, None, None]) / self.std[:, None, None]


def channel_statistics(x: Float[Tensor, "n c h w"]) -> tuple[Float[Tensor, " c"], Float[Tensor, " c"]]:
    """Mean and standard deviation of each channel in float64, a few images at a time."""
    pixels, zeros = x.numel() // x.shape[1], torch.zeros(x.shape[1], dtype=torch.float64)
    mean = sum((part.sum((0, 2, 3)) for part in parts(x)), zeros) / pixels
    # a second pass, since a mean of squares minus a squared mean would cancel
    squares = ((part - mean[:, None, None]).square().sum((0, 2, 3)) for part in parts(x))
    return mean, (sum(squares, zeros) / pixels).sqrt()


MNIST_NORMALISATION = ChannelNormalisation.given([0.1307], [0.3081])
"""Statistics of all MNIST training pixels, used by the identity task: the background becomes -0.4242."""
