"""Plain equivalents of networks that people inspect at 224 pixels: the same layers, without trained weights."""

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F


class EfficientNetB0(nn.Module):
    """Inverted residual blocks with depthwise convolutions and squeeze-and-excitation: 5.3 million weights."""

    BLOCKS = (  # expansion, width, repeats, stride, kernel
        (1, 16, 1, 1, 3), (6, 24, 2, 2, 3), (6, 40, 2, 2, 5), (6, 80, 3, 2, 3), (6, 112, 3, 1, 5),
        (6, 192, 4, 2, 5), (6, 320, 1, 1, 3),
    )  # fmt: skip

    def __init__(self) -> None:
        super().__init__()
        self.stem = _conv(3, 32, 3, stride=2)
        blocks, inputs = [], 32
        for expansion, width, repeats, stride, kernel in self.BLOCKS:
            for i in range(repeats):
                blocks.append(_MBConv(inputs, width, expansion, stride if i == 0 else 1, kernel))
                inputs = width
        self.blocks, self.top, self.head = nn.Sequential(*blocks), _conv(320, 1280, 1), nn.Linear(1280, 1000)

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1000"]:
        return self.head(self.top(self.blocks(self.stem(x))).mean((2, 3)))


def _conv(
    inputs: int, outputs: int, kernel: int, *, stride: int = 1, groups: int = 1, act: bool = True
) -> nn.Sequential:
    layers = [
        nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=False),
        nn.BatchNorm2d(outputs),
    ]
    return nn.Sequential(*layers, *([nn.SiLU()] if act else []))


class _MBConv(nn.Module):
    def __init__(self, inputs: int, outputs: int, expansion: int, stride: int, kernel: int) -> None:
        super().__init__()
        inner = inputs * expansion
        self.expand = _conv(inputs, inner, 1) if expansion > 1 else nn.Identity()
        self.depthwise = _conv(inner, inner, kernel, stride=stride, groups=inner)
        self.squeeze, self.excite = nn.Conv2d(inner, inputs // 4, 1), nn.Conv2d(inputs // 4, inner, 1)
        self.project = _conv(inner, outputs, 1, act=False)
        self.adds = stride == 1 and inputs == outputs

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        h = self.depthwise(self.expand(x))
        h = h * torch.sigmoid(self.excite(F.silu(self.squeeze(h.mean((2, 3), keepdim=True)))))
        return x + self.project(h) if self.adds else self.project(h)


class ConvNeXtTiny(nn.Module):
    """Depthwise 7 x 7 convolutions and linear layers over channels: 29 million weights."""

    def __init__(self) -> None:
        super().__init__()
        widths, stages = (96, 192, 384, 768), []
        for i, (width, depth) in enumerate(zip(widths, (3, 3, 9, 3), strict=True)):
            inputs, size = (3, 4) if i == 0 else (widths[i - 1], 2)
            norm = nn.GroupNorm(1, width) if i == 0 else nn.GroupNorm(1, inputs)
            down = nn.Conv2d(inputs, width, size, size)
            stages += [down, norm] if i == 0 else [norm, down]
            stages += [_ConvNeXtBlock(width) for _ in range(depth)]
        self.stages, self.norm, self.head = nn.Sequential(*stages), nn.LayerNorm(768), nn.Linear(768, 1000)

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1000"]:
        return self.head(self.norm(self.stages(x).mean((2, 3))))


class _ConvNeXtBlock(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(width, width, 7, padding=3, groups=width)
        self.norm = nn.LayerNorm(width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
        h = self.norm(self.depthwise(x).permute(0, 2, 3, 1))
        return x + self.narrow(F.gelu(self.wide(h))).permute(0, 3, 1, 2)


class ViTTiny(nn.Module):
    """Twelve blocks of attention over 14 x 14 patches, width 192: 5.7 million weights."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Conv2d(3, 192, 16, 16)
        self.position = nn.Parameter(0.02 * torch.randn(1, 197, 192))
        self.token = nn.Parameter(torch.zeros(1, 1, 192))
        self.blocks = nn.Sequential(*(_Block(192, 3) for _ in range(12)))
        self.norm, self.head = nn.LayerNorm(192), nn.Linear(192, 1000)

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1000"]:
        patches = self.embed(x).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.token.expand(len(x), -1, -1), patches], 1) + self.position
        return self.head(self.norm(self.blocks(tokens))[:, 0])


class _Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.wide, self.narrow = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x: Float[Tensor, "n t c"]) -> Float[Tensor, "n t c"]:
        n, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).reshape(n, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        x = x + self.out(F.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(n, t, c))
        return x + self.narrow(F.gelu(self.wide(self.norm2(x))))


class BiT50x1(nn.Module):
    """A ResNet-50 of pre-activation blocks with group normalisation and standardised weights: 26 million weights."""

    def __init__(self) -> None:
        super().__init__()
        blocks, inputs = [], 64
        for width, depth, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(depth):
                blocks.append(_PreActivation(inputs, width, stride if i == 0 else 1))
                inputs = 4 * width
        self.stem, self.blocks = _StandardisedConv(3, 64, 7, 2, 3, bias=False), nn.Sequential(*blocks)
        self.norm, self.head = nn.GroupNorm(32, inputs), nn.Conv2d(inputs, 1000, 1)

    def forward(self, x: Float[Tensor, "n 3 h w"]) -> Float[Tensor, "n 1000"]:
        h = self.blocks(F.max_pool2d(self.stem(x), 3, 2, 1))
        return self.head(F.relu(self.norm(h)).mean((2, 3), keepdim=True))[:, :, 0, 0]


class _StandardisedConv(nn.Conv2d):
    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        variance, mean = torch.var_mean(self.weight, dim=(1, 2, 3), keepdim=True, correction=0)
        weight = (self.weight - mean) / (variance + 1e-10).sqrt()
        return F.conv2d(x, weight, None, self.stride, self.padding)


class _PreActivation(nn.Module):
    def __init__(self, inputs: int, width: int, stride: int) -> None:
        super().__init__()
        conv = _StandardisedConv
        self.norms = nn.ModuleList(nn.GroupNorm(32, channels) for channels in (inputs, width, width))
        self.convs = nn.ModuleList(
            [
                conv(inputs, width, 1, bias=False),
                conv(width, width, 3, stride, 1, bias=False),
                conv(width, 4 * width, 1, bias=False),
            ]
        )
        changes = stride > 1 or inputs != 4 * width
        self.shortcut = conv(inputs, 4 * width, 1, stride, bias=False) if changes else None

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        h = F.relu(self.norms[0](x))
        short = x if self.shortcut is None else self.shortcut(h)
        h = self.convs[0](h)
        for norm, conv in zip(list(self.norms)[1:], list(self.convs)[1:], strict=True):
            h = conv(F.relu(norm(h)))
        return short + h


LARGE = {
    "efficientnet_b0": EfficientNetB0,
    "convnext_tiny": ConvNeXtTiny,
    "vit_tiny": ViTTiny,
    "bit_50x1": BiT50x1,
}
