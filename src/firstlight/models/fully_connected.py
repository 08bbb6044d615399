"""Fully connected networks: classifiers, deep linear and two-layer ReLU nets, and nets that return an image."""

import math

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.shapes import Images
from firstlight.models.building import Shape, dropout_slot, register_model, require_at_least


class FullyConnected(nn.Sequential):
    """Flatten, `depth` weight layers, and back to an image if `image` is set.

    Layers are called fc1 ... fcL. Depth counts weight layers, so `depth=1` has no hidden layer.
    """

    def __init__(
        self,
        shape: Shape,
        *,
        outputs: int,
        depth: int,
        units: int,
        bias: bool,
        linear: bool,
        dropout: float = 0.0,
        image: bool = False,
    ) -> None:
        require_at_least(1, depth=depth, units=units)
        super().__init__()
        self.linear, self.image = linear, image
        sizes = [math.prod(shape), *[units] * (depth - 1), outputs]
        self.add_module("flatten", nn.Flatten())
        for index in range(1, depth + 1):
            if index == depth > 1:
                self.add_module("dropout", dropout_slot(dropout))
            self.add_module(f"fc{index}", nn.Linear(sizes[index - 1], sizes[index], bias=bias))
            if index < depth and not linear:
                self.add_module(f"relu{index}", nn.ReLU())
        if image:
            self.add_module("unflatten", nn.Unflatten(1, shape))

    @property
    def layers(self) -> list[nn.Linear]:
        """The weight layers, first to last."""
        return [module for module in self if isinstance(module, nn.Linear)]


@register_model("fcn")
def fcn(
    *, classes: int, shape: Shape, depth: int = 3, units: int = 1024, bias: bool = True, dropout: float = 0.0
) -> FullyConnected:
    """ReLU classifier of `depth` weight layers, with optional dropout before the last."""
    return FullyConnected(
        shape, outputs=classes, depth=depth, units=units, bias=bias, linear=False, dropout=dropout
    )


@register_model("linear_fcn")
def linear_fcn(
    *, classes: int, shape: Shape, depth: int = 2, units: int = 1024, bias: bool = False, dropout: float = 0.0
) -> FullyConnected:
    """Deep linear classifier of PCBias: `depth` layers, no activation.

    The paper trains with ``dropout=0.5`` before the output layer and Glorot-uniform weights
    (``initialiser="xavier_uniform"``); its theory has neither. One layer alone gets no dropout.
    """
    return FullyConnected(
        shape, outputs=classes, depth=depth, units=units, bias=bias, linear=True, dropout=dropout
    )


@register_model("identity_fcn", linear=False)
@register_model("identity_linear_fcn", linear=True)
def image_fcn(
    *,
    classes: int,
    shape: Shape,
    depth: int = 3,
    units: int | None = None,
    bias: bool = True,
    linear: bool = False,
) -> FullyConnected:
    """Network of the identity task: image in, image out; by default as wide as the image.

    The published counts leave biases out (``bias=False``); `classes` has no meaning here.
    """
    inputs = math.prod(shape)
    units = inputs if units is None else units
    return FullyConnected(
        shape, outputs=inputs, depth=depth, units=units, bias=bias, linear=linear, image=True
    )


class ResidualBlock(nn.Module):
    r"""The map :math:`x \mapsto x + \phi(W_2\, \mathrm{relu}(W_1 x))`, with :math:`\phi` relu or nothing."""

    def __init__(self, inputs: int, units: int, *, bias: bool, last: bool) -> None:
        super().__init__()
        self.fc1 = nn.Linear(inputs, units, bias=bias)
        self.relu1 = nn.ReLU()
        self.fc2 = nn.Linear(units, inputs, bias=bias)
        self.relu2: nn.Module = nn.Identity() if last else nn.ReLU()

    def forward(self, x: Tensor) -> Tensor:
        """Add the branch to the input."""
        branch: Tensor = self.relu2(self.fc2(self.relu1(self.fc1(x))))
        return x + branch


class ResidualFCN(nn.Sequential):
    """Residual blocks between a flattening and its inverse; no ReLU on the output block."""

    def __init__(self, shape: Shape, *, blocks: int, units: int, bias: bool) -> None:
        require_at_least(1, blocks=blocks, units=units)
        inputs = math.prod(shape)
        super().__init__()
        self.add_module("flatten", nn.Flatten())
        for index in range(1, blocks + 1):
            self.add_module(f"block{index}", ResidualBlock(inputs, units, bias=bias, last=index == blocks))
        self.add_module("unflatten", nn.Unflatten(1, shape))


@register_model("residual_fcn")
def residual_fcn(
    *, classes: int, shape: Shape, blocks: int = 2, units: int | None = None, bias: bool = True
) -> ResidualFCN:
    """Residual network of the identity task; by default as wide as the image."""
    units = math.prod(shape) if units is None else units
    return ResidualFCN(shape, blocks=blocks, units=units, bias=bias)


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
