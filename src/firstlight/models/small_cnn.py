"""The desk-scale CNN: a millisecond an image on one core, and deep enough to show the effects."""

from torch import nn

from firstlight._internal.errors import InvalidInput
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
