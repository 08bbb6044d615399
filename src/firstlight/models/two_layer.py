"""The two-layer ReLU model whose second layer is fixed."""

import math
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.shapes import Images
from firstlight.models.building import Shape, register_model, require_at_least


class TwoLayerReLU(nn.Module):
    r"""The map :math:`f(x) = a^\top \mathrm{relu}(W x)` with :math:`W` trained and :math:`a` fixed.

    The read-out alternates between :math:`\pm 1/\sqrt{m}`. In a paired model
    :math:`w_{2i} = -w_{2i-1}` and :math:`a_{2i} = -a_{2i-1}` at the start, which makes
    :math:`f(x) = \frac12 a^\top W x` for every input off the hyperplanes.
    """

    readout: Tensor

    def __init__(self, inputs: int, units: int, *, paired: bool) -> None:
        super().__init__()
        self.paired = paired
        self.flatten = nn.Flatten()
        self.hidden = nn.Linear(inputs, units, bias=False)
        self.relu = nn.ReLU()
        signs = 1 - 2 * (torch.arange(units) % 2)
        self.register_buffer("readout", signs.to(self.hidden.weight.dtype) / math.sqrt(units))
        self.tie_weights()

    def tie_weights(self) -> None:
        """Make every second row the negative of the one before it, if the model is paired."""
        if self.paired:
            with torch.no_grad():
                self.hidden.weight[1::2] = -self.hidden.weight[::2]

    def forward(self, x: Images) -> Float[Tensor, "n 1"]:
        """Score of each image."""
        hidden: Tensor = self.relu(self.hidden(self.flatten(x)))
        return (hidden @ self.readout)[:, None]


@register_model("two_layer_relu")
def two_layer_relu(*, classes: int, shape: Shape, units: int = 1024, paired: bool = False) -> TwoLayerReLU:
    """Two-layer model of PCBias: a single score, so ``classes=1``; labels are -1 and +1."""
    if classes != 1:
        raise InvalidInput(f"The two-layer ReLU model has one output: pass classes=1; got classes={classes}.")
    require_at_least(1, units=units)
    if paired and units % 2:
        raise InvalidInput(f"`units` must be even to be paired; got units={units}.")
    return TwoLayerReLU(math.prod(shape), units, paired=paired)


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
