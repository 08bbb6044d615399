"""The plain convolutional nets of CNFA: without biases, padded or not, pooled or not."""

from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight.models.building import (
    Shape,
    dropout_slot,
    register_model,
    require_at_least,
    require_odd,
    require_side,
    scaled,
)


@register_model("cnfa_cnn")
def cnfa_cnn(
    *, classes: int, shape: Shape, depth: int = 3, channels: int = 64, kernel: int = 3
) -> nn.Sequential:
    """Three unpadded convolutions with ReLU, flattened into a linear layer; no biases anywhere."""
    require_at_least(1, depth=depth, channels=channels, kernel=kernel)
    height, breadth = (side - depth * (kernel - 1) for side in shape[1:])
    if height < 1 or breadth < 1:
        raise InvalidInput(
            f"`shape` must exceed {depth * (kernel - 1)} pixels for {depth} unpadded {kernel} x {kernel} "
            f"convolutions; got {shape[1]} x {shape[2]}."
        )
    layers: list[nn.Module] = []
    for index in range(depth):
        layers.append(nn.Conv2d(channels if index else shape[0], channels, kernel, bias=False))
        layers.append(nn.ReLU())
    head = nn.Linear(channels * height * breadth, classes, bias=False)
    return nn.Sequential(*layers, nn.Flatten(), head)


@register_model("pooling_vec", pooling="vec")
@register_model("pooling_max", pooling="max")
@register_model("pooling_avg", pooling="avg")
def pooling_study(
    *, classes: int, shape: Shape, pooling: str, depth: int = 4, channels: int = 64, kernel: int = 3
) -> nn.Sequential:
    """Padded convolutions without biases: flattened (vec), or pooled after each inner layer (max, avg).

    With four layers: conv conv pool conv pool conv, then global pooling and a linear layer. The paper's
    weights are ``initialiser="pooling_study"``.
    """
    require_at_least(1, depth=depth, channels=channels)
    require_odd(kernel=kernel)
    pools = {"max": nn.MaxPool2d, "avg": nn.AvgPool2d}
    n_pools = max(depth - 2, 0) if pooling in pools else 0
    require_side(shape, 2**n_pools, name=f"{depth} layers with {n_pools} poolings")
    layers: list[nn.Module] = []
    for index in range(depth):
        inputs = channels if index else shape[0]
        layers += [nn.Conv2d(inputs, channels, kernel, padding=kernel // 2, bias=False), nn.ReLU()]
        if pooling in pools and 0 < index < depth - 1:
            layers.append(pools[pooling](2))
    if pooling == "max":
        layers.append(nn.AdaptiveMaxPool2d(1))
    elif pooling == "avg":
        layers.append(nn.AdaptiveAvgPool2d(1))
    flat = channels * (1 if pooling in pools else shape[1] * shape[2])
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(flat, classes, bias=False))


# channels and kernel of each convolution, block by block; a pooling ends every block but the fourth and the last
_PLAN = (
    ((64, 3), (128, 3), (128, 3), (128, 3)),
    ((128, 3), (128, 3), (256, 3)),
    ((256, 3), (256, 3)),
    ((512, 3),),
    ((2048, 1), (256, 1)),
    ((256, 3),),
)


_UNPOOLED = 3


@register_model("simplenet")
def simplenet(*, classes: int, shape: Shape, width: float | int = 1, dropout: float = 0.1) -> nn.Sequential:
    """SimpleNet of CNFA; convolutions have biases, global max pooling precedes the linear layer.

    Dropout acts on whole channels, between blocks.
    """
    require_side(shape, 16, name="SimpleNet")
    dropout_slot(dropout)
    layers: list[nn.Module] = []
    channels = shape[0]
    for index, block in enumerate(_PLAN):
        for base, kernel in block:
            outputs = scaled(base, width)
            layers += [nn.Conv2d(channels, outputs, kernel, padding=kernel // 2), nn.BatchNorm2d(outputs)]
            layers.append(nn.ReLU())
            channels = outputs
        if index == len(_PLAN) - 1:
            break
        if index != _UNPOOLED:
            layers.append(nn.MaxPool2d(2))
        layers.append(nn.Dropout2d(dropout) if dropout else nn.Identity())
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
