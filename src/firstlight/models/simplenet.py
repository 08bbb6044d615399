"""SimpleNet: thirteen convolutions with batch norm."""

from torch import nn

from firstlight.models.building import Shape, register_model, require_side, scaled
from firstlight.models.layers import dropout_slot

# channels and kernel of each convolution, block by block; a pooling ends every block but the last
_PLAN = (
    ((64, 3), (128, 3), (128, 3), (128, 3)),
    ((128, 3), (128, 3), (256, 3)),
    ((256, 3), (256, 3)),
    ((512, 3),),
    ((2048, 1), (256, 1)),
    ((256, 3),),
)
_EXTRA_POOL = 3


@register_model("simplenet")
def simplenet(
    *,
    classes: int,
    shape: Shape,
    width: float | int = 1,
    extra_pool: bool = False,
    dropout: float = 0.1,
) -> nn.Sequential:
    """SimpleNet of CNFA; convolutions have biases, global max pooling precedes the linear layer.

    `extra_pool` restores the pooling after the 512-channel layer that the first PyTorch port had.
    Dropout acts on whole channels, between blocks.
    """
    require_side(shape, 32 if extra_pool else 16, name="SimpleNet")
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
        if index != _EXTRA_POOL or extra_pool:
            layers.append(nn.MaxPool2d(2))
        layers.append(nn.Dropout2d(dropout) if dropout else nn.Identity())
    return nn.Sequential(*layers, nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(channels, classes))
