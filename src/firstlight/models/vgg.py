"""VGG networks: the paper's, compact ones for 32 pixels, and streamlined ones."""

from typing import Literal

from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.shapes import Images
from firstlight.models.building import (
    Shape,
    dropout_slot,
    register_model,
    require_at_least,
    require_odd,
    require_side,
    scaled,
)

_CHANNELS = (64, 128, 256, 512, 512)
_CONVOLUTIONS = {11: (1, 1, 2, 2, 2), 13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3), 19: (2, 2, 4, 4, 4)}


class VGG(nn.Module):
    """Five stages of 3 x 3 convolutions, each ended by a 2 x 2 max pooling; then a classifier."""

    def __init__(self, features: nn.Sequential, avgpool: nn.Module, classifier: nn.Module) -> None:
        super().__init__()
        self.features = features
        self.avgpool = avgpool
        self.classifier = classifier

    def forward(self, x: Images) -> Tensor:
        """Class scores."""
        scores: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return scores


def vgg(
    *,
    classes: int,
    shape: Shape,
    depth: int,
    batch_norm: bool,
    form: Literal["cifar", "imagenet"] = "cifar",
    width: float | int = 1,
    first_width: int | None = None,
    dropout: float = 0.0,
) -> VGG:
    """VGG of `depth` weight layers in its original count.

    Parameters
    ----------
    classes : int
        Number of outputs.
    shape : Shape
        Image shape, at least 32 x 32.
    depth : int
        11, 13, 16 or 19.
    batch_norm : bool
        Batch norm after every convolution.
    form : {'cifar', 'imagenet'}, default 'cifar'
        "cifar" ends in one linear layer; "imagenet" in 7 x 7 average pooling and three layers, with the
        parameter names of torchvision, whose state dicts load unchanged.
    width : float or int, default 1
        Factor on all channels and hidden units.
    first_width : int, optional
        Filters of the first layer alone, whatever the factor.
    dropout : float, default 0.0
        In the three-layer classifier; torchvision trains with 0.5.
    """
    if form not in {"cifar", "imagenet"}:
        raise InvalidInput(f"`form` must be 'cifar' or 'imagenet'; got form={form!r}.")
    require_side(shape, 32, name="VGG")
    plan = [[scaled(c, width)] * n for c, n in zip(_CHANNELS, _CONVOLUTIONS[depth], strict=True)]
    if first_width is not None:
        require_at_least(1, first_width=first_width)
        plan[0][0] = first_width
    features, last = _features(shape[0], plan, batch_norm=batch_norm), plan[-1][-1]
    if form == "cifar":
        flat = last * (shape[1] // 32) * (shape[2] // 32)
        return VGG(features, nn.Identity(), nn.Linear(flat, classes))
    units = scaled(4096, width)
    classifier = nn.Sequential(
        nn.Linear(last * 49, units),
        nn.ReLU(),
        dropout_slot(dropout),
        nn.Linear(units, units),
        nn.ReLU(),
        dropout_slot(dropout),
        nn.Linear(units, classes),
    )
    return VGG(features, nn.AdaptiveAvgPool2d((7, 7)), classifier)


def _features(channels: int, plan: list[list[int]], *, batch_norm: bool) -> nn.Sequential:
    layers: list[nn.Module] = []
    for stage in plan:
        for width in stage:
            layers.append(nn.Conv2d(channels, width, 3, padding=1))
            if batch_norm:
                layers.append(nn.BatchNorm2d(width))
            layers.append(nn.ReLU())
            channels = width
        layers.append(nn.MaxPool2d(2))
    return nn.Sequential(*layers)


for _depth in _CONVOLUTIONS:
    register_model(f"vgg{_depth}", depth=_depth, batch_norm=False)(vgg)
    register_model(f"vgg{_depth}_bn", depth=_depth, batch_norm=True)(vgg)


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
