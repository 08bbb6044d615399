"""Residual networks: the wide ones of ImageNet under torchvision's parameter names, and the narrow ones of CIFAR-10."""

from functools import partial
from typing import Literal

from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.shapes import Images
from firstlight.models.building import Shape, register_model, scaled

_BLOCKS = {18: (2, 2, 2, 2), 34: (3, 4, 6, 3), 50: (3, 4, 6, 3)}
_NARROW_BLOCKS = {14: (2, 2, 2), 20: (3, 3, 3), 32: (5, 5, 5)}
"""Of three stages with 16, 32 and 64 channels, made for images of 32 x 32."""


class BasicBlock(nn.Module):
    """Two 3 x 3 convolutions beside a shortcut."""

    expansion = 1

    def __init__(self, inputs: int, width: int, *, stride: int, stride_in_1x1: bool, bn_eps: float) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(width, eps=bn_eps)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width, eps=bn_eps)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(inputs, width, stride=stride, bn_eps=bn_eps)

    def forward(self, x: Images) -> Float[Tensor, "n c2 h2 w2"]:
        """Add the branch to the shortcut, then apply ReLU."""
        branch = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        added: Tensor = self.relu(branch + (x if self.downsample is None else self.downsample(x)))
        return added


class Bottleneck(nn.Module):
    """1 x 1, 3 x 3 and 1 x 1 convolutions beside a shortcut; the last is four times as wide.

    A stride sits in the 3 x 3 convolution as in torchvision, or in the first 1 x 1 as in the original
    paper and in Keras.
    """

    expansion = 4

    def __init__(self, inputs: int, width: int, *, stride: int, stride_in_1x1: bool, bn_eps: float) -> None:
        super().__init__()
        first, second = (stride, 1) if stride_in_1x1 else (1, stride)
        self.conv1 = nn.Conv2d(inputs, width, 1, stride=first, bias=False)
        self.bn1 = nn.BatchNorm2d(width, eps=bn_eps)
        self.conv2 = nn.Conv2d(width, width, 3, stride=second, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(width, eps=bn_eps)
        self.conv3 = nn.Conv2d(width, width * self.expansion, 1, bias=False)
        self.bn3 = nn.BatchNorm2d(width * self.expansion, eps=bn_eps)
        self.relu = nn.ReLU()
        self.downsample = _shortcut(inputs, width * self.expansion, stride=stride, bn_eps=bn_eps)

    def forward(self, x: Images) -> Float[Tensor, "n c2 h2 w2"]:
        """Add the branch to the shortcut, then apply ReLU."""
        branch = self.relu(self.bn1(self.conv1(x)))
        branch = self.bn3(self.conv3(self.relu(self.bn2(self.conv2(branch)))))
        added: Tensor = self.relu(branch + (x if self.downsample is None else self.downsample(x)))
        return added


def _shortcut(inputs: int, outputs: int, *, stride: int, bn_eps: float) -> nn.Sequential | None:
    if stride == 1 and inputs == outputs:
        return None
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 1, stride=stride, bias=False), nn.BatchNorm2d(outputs, eps=bn_eps)
    )


class ResNet(nn.Module):
    """A stem, three or four stages of residual blocks, global average pooling and one linear layer."""

    def __init__(
        self,
        in_channels: int,
        *,
        classes: int,
        depth: int,
        form: str,
        width: float | int,
        stride_in_1x1: bool,
        bn_eps: float,
    ) -> None:
        super().__init__()
        is_narrow = depth in _NARROW_BLOCKS
        plan = _NARROW_BLOCKS[depth] if is_narrow else _BLOCKS[depth]
        widths = [scaled(n, width) for n in ((16, 32, 64) if is_narrow else (64, 128, 256, 512))]
        kind = Bottleneck if depth >= 50 else BasicBlock
        block = partial(kind, stride_in_1x1=stride_in_1x1, bn_eps=bn_eps)
        if form == "imagenet":
            self.conv1 = nn.Conv2d(in_channels, widths[0], 7, stride=2, padding=3, bias=False)
            self.maxpool: nn.Module = nn.MaxPool2d(3, stride=2, padding=1)
        else:
            self.conv1 = nn.Conv2d(in_channels, widths[0], 3, padding=1, bias=False)
            self.maxpool = nn.Identity()
        self.bn1 = nn.BatchNorm2d(widths[0], eps=bn_eps)
        self.relu = nn.ReLU()
        inputs = widths[0]
        for index, (stage, n_blocks) in enumerate(zip(widths, plan, strict=True), start=1):
            blocks = [block(inputs, stage, stride=1 if index == 1 else 2)]
            inputs = stage * kind.expansion
            blocks += [block(inputs, stage, stride=1) for _ in range(n_blocks - 1)]
            self.add_module(f"layer{index}", nn.Sequential(*blocks))
        self.n_stages = len(plan)
        self.avgpool = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x: Images) -> Tensor:
        """Class scores."""
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        for index in range(1, self.n_stages + 1):
            x = self.get_submodule(f"layer{index}")(x)
        scores: Tensor = self.fc(self.avgpool(x).flatten(1))
        return scores


def resnet(
    *,
    classes: int,
    shape: Shape,
    depth: int,
    form: Literal["cifar", "imagenet"] = "cifar",
    width: float | int = 1,
    stride_in_1x1: bool = False,
    bn_eps: float = 1e-5,
) -> ResNet:
    """Residual network of `depth` weight layers in its original count.

    Parameters
    ----------
    classes : int
        Number of outputs.
    shape : Shape
        Image shape.
    depth : int
        18, 34 (two convolutions a block) or 50 (three); or 14, 20, 32 for the narrow networks of CIFAR-10, with
        three stages and a hundredth of the weights. Their shortcuts are 1 x 1 convolutions where the shape changes.
    form : {'cifar', 'imagenet'}, default 'cifar'
        "cifar" has a 3 x 3 stem and no first pooling; "imagenet" a 7 x 7 stem of stride 2 and a max
        pooling. Both use torchvision's parameter names; its state dicts load into the latter unchanged.
    width : float or int, default 1
        Factor on all channels.
    stride_in_1x1 : bool, default False
        Put a bottleneck's stride into its first convolution, as Keras does.
    bn_eps : float, default 1e-05
        Added to the variance by batch norm; Keras has 1e-3.
    """
    if form not in {"cifar", "imagenet"}:
        raise InvalidInput(f"`form` must be 'cifar' or 'imagenet'; got form={form!r}.")
    if form == "imagenet" and depth in _NARROW_BLOCKS:
        raise InvalidInput(
            f"the narrow networks are for small images; got form='imagenet' with depth={depth}."
        )
    if not bn_eps > 0:
        raise InvalidInput(f"`bn_eps` must be positive; got bn_eps={bn_eps}.")
    return ResNet(
        shape[0],
        classes=classes,
        depth=depth,
        form=form,
        width=width,
        stride_in_1x1=stride_in_1x1,
        bn_eps=bn_eps,
    )


for _depth in (*_NARROW_BLOCKS, *_BLOCKS):
    register_model(f"resnet{_depth}", depth=_depth)(resnet)
