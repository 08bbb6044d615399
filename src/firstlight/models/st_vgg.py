"""The small VGG-like net of PCBias and its linear twin."""

from torch import nn

from firstlight.models.building import Shape, register_model, require_side, scaled
from firstlight.models.layers import dropout_slot


@register_model("st_vgg", linear=False)
@register_model("linear_st_vgg", linear=True)
def st_vgg(
    *,
    classes: int,
    shape: Shape,
    linear: bool,
    width: float | int = 1,
    pool_dropout: float = 0.25,
    dropout: float = 0.5,
) -> nn.Sequential:
    """Four pairs of convolutions with pooling, a hidden layer of 512 units, and the output; with biases.

    The first three pairs are 3 x 3, the last is 2 x 2; all keep the image size, the 2 x 2 ones by a zero
    row below and a zero column at the right. The linear twin has no activations and averages where the
    other takes the maximum, so it is one affine map once dropout is off.
    """
    require_side(shape, 16, name="st-VGG")
    layers: list[nn.Module] = []
    channels = shape[0]
    for base, kernel in ((32, 3), (64, 3), (128, 3), (256, 2)):
        for _ in range(2):
            if kernel == 2:
                layers.append(nn.ZeroPad2d((0, 1, 0, 1)))
            layers.append(nn.Conv2d(channels, scaled(base, width), kernel, padding=1 if kernel == 3 else 0))
            layers.extend([] if linear else [nn.ReLU()])
            channels = scaled(base, width)
        layers.append(nn.AvgPool2d(2) if linear else nn.MaxPool2d(2))
        layers.append(dropout_slot(pool_dropout))
    units = scaled(512, width)
    layers += [nn.Flatten(), nn.Linear(channels * (shape[1] // 16) * (shape[2] // 16), units)]
    layers.extend([] if linear else [nn.ReLU()])
    return nn.Sequential(*layers, dropout_slot(dropout), nn.Linear(units, classes))
