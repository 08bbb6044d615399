"""The desk-scale CNN, a millisecond an image on one core and deep enough to show the effects, and one linear layer."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.shapes import Images
from firstlight.models.building import Shape, register_model, require_at_least, scaled

_CHANNELS = {3: (64, 32, 64), 4: (64, 32, 64, 64)}


@register_model("small", linear=False)
@register_model("small_linear", linear=True)
def small(
    *,
    classes: int,
    shape: Shape,
    linear: bool,
    depth: int = 3,
    width: float | int = 1,
    first_width: int | None = None,
    batch_norm: bool = False,
) -> nn.Sequential:
    """Convolutions 3 x 3 of 64-32-64 (or 64-32-64-64) channels, each pooled 2 x 2, and a linear layer.

    `first_width` sets the filters of the first layer alone. Pooling stops when a side would vanish, so
    images of any size are accepted. The linear twin has no activations and averages where the other
    takes the maximum.
    """
    if depth not in _CHANNELS:
        raise InvalidInput(f"`depth` must be 3 or 4 convolutions; got depth={depth}.")
    if linear and batch_norm:
        raise InvalidInput("`batch_norm` would make the linear network non-linear; leave it off.")
    plan = [scaled(n, width) for n in _CHANNELS[depth]]
    if first_width is not None:
        require_at_least(1, first_width=first_width)
        plan[0] = first_width
    layers: list[nn.Module] = []
    channels, height, breadth = shape
    for outputs in plan:
        layers.append(nn.Conv2d(channels, outputs, 3, padding=1))
        layers.extend([nn.BatchNorm2d(outputs)] if batch_norm else [])
        layers.extend([] if linear else [nn.ReLU()])
        if min(height, breadth) >= 2:
            layers.append(nn.AvgPool2d(2) if linear else nn.MaxPool2d(2))
            height, breadth = height // 2, breadth // 2
        channels = outputs
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels * height * breadth, classes))


class LinearCNN(nn.Module):
    r"""A filter bank read out by a fixed vector.

    .. math:: f(x) = \frac{1}{|S|} \sum_{p \in S} a^\top W x[p]

    with filters :math:`W \in R^{M \times D}` and the read-out :math:`a \in R^M`, by default
    :math:`a = 1/M`, the mean over filters. All filters then get the same gradient.
    """

    readout: Tensor

    def __init__(self, conv: nn.Conv2d, readout: Tensor) -> None:
        super().__init__()
        self.conv = conv
        self.register_buffer("readout", readout)

    def forward(self, x: Images) -> Float[Tensor, "n 1"]:
        """Score of each image."""
        averages: Tensor = self.conv(x).mean(dim=(2, 3))
        return (averages @ self.readout)[:, None]


@register_model("linear_cnn")
def linear_cnn(
    *,
    classes: int,
    shape: Shape,
    filters: int = 64,
    kernel: int = 3,
    padding: int = 0,
    stride: int = 1,
    readout: Sequence[float] | Tensor | None = None,
) -> LinearCNN:
    """Linear CNN of FirstLayer: a single score, so ``classes=1``; no bias.

    `readout` holds one number per filter; None takes the mean over filters.
    """
    if classes != 1:
        raise InvalidInput(f"The linear CNN has one output: pass classes=1; got classes={classes}.")
    require_at_least(1, filters=filters, kernel=kernel, stride=stride)
    require_at_least(0, padding=padding)
    if kernel > min(shape[1:]) + 2 * padding:
        raise InvalidInput(
            f"`kernel` must be at most {min(shape[1:]) + 2 * padding}, the padded image; got kernel={kernel}."
        )
    conv = nn.Conv2d(shape[0], filters, kernel, stride=stride, padding=padding, bias=False)
    numbers = [1 / filters] * filters if readout is None else [float(a) for a in readout]
    if len(numbers) != filters or not all(math.isfinite(a) for a in numbers):
        raise InvalidInput(
            f"`readout` must hold {filters} finite numbers, one per filter; got {len(numbers)} numbers, "
            f"{sum(math.isfinite(a) for a in numbers)} of them finite."
        )
    return LinearCNN(conv, torch.tensor(numbers))
