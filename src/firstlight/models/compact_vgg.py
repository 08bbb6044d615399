"""A VGG that learns CIFAR-10 within the hour on one core: few filters where the images are large."""

from typing import Literal

from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight.models.building import Shape, register_model, require_odd, require_side, scaled

# channels of each stage; a 2 x 2 max pooling ends every stage
_STAGES: dict[int, tuple[tuple[int, ...], ...]] = {
    5: ((32,), (64,), (128,), (256,)),
    7: ((32,), (64,), (128, 128), (256, 256)),
    9: ((32, 32), (64, 64), (128, 128), (256, 256)),
}


@register_model("vgg5", depth=5)
@register_model("vgg7", depth=7)
@register_model("vgg9", depth=9)
def compact_vgg(
    *,
    classes: int,
    shape: Shape,
    depth: Literal[5, 7, 9],
    width: float | int = 1,
    batch_norm: bool = True,
    stem: int = 3,
) -> nn.Sequential:
    """3 x 3 convolutions of 32 to 256 channels in four stages, each pooled 2 x 2; global average; a linear layer.

    Parameters
    ----------
    classes : int
        Number of outputs.
    shape : Shape
        Image shape, at least 16 x 16.
    depth : {5, 7, 9}
        Weight layers: convolutions and the linear layer.
    width : float or int, default 1
        Factor on all channels.
    batch_norm : bool, default True
        Batch norm after every convolution, which then has no bias.
    stem : int, default 3
        Side of the first layer's filters, odd.
    """
    if depth not in _STAGES:
        raise InvalidInput(f"`depth` must be one of {', '.join(map(str, _STAGES))}; got depth={depth}.")
    require_side(shape, 16, name="a compact VGG")
    require_odd(stem=stem)
    layers: list[nn.Module] = []
    channels, size = shape[0], stem
    for stage in _STAGES[depth]:
        for plain in stage:
            outputs = scaled(plain, width)
            layers.append(nn.Conv2d(channels, outputs, size, padding=size // 2, bias=not batch_norm))
            layers.extend([nn.BatchNorm2d(outputs)] if batch_norm else [])
            layers.append(nn.ReLU())
            channels, size = outputs, 3
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
