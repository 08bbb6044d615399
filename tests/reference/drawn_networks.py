"""Networks of every make, drawn by hypothesis: groups, strides, paddings, shared and repeated modules."""

import torch
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional


class Twice(nn.Module):
    """One convolution and one linear layer, each used twice."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.conv = nn.Conv2d(channels, channels, 3, padding=1)
        self.mix = nn.Linear(channels, channels)
        self.head = nn.Linear(channels, outputs, bias=False)

    def forward(self, x):
        x = self.conv(torch.tanh(self.conv(x))).mean((2, 3))
        return self.head(self.mix(torch.sigmoid(self.mix(x))))


class Shared(nn.Module):
    """Two modules that hold one weight, and one module under two names."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.one = nn.Conv2d(channels, channels, 3, padding=1)
        self.two = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.two.weight = self.one.weight
        self.again = self.one
        self.head = nn.Linear(channels, outputs)

    def forward(self, x):
        return self.head(self.again(torch.tanh(self.two(torch.tanh(self.one(x))))).mean((2, 3)))


class Residual(nn.Module):
    """Branches, batch normalisation, a free scale, max pooling."""

    def __init__(self, channels, outputs):
        super().__init__()
        self.first = nn.Conv2d(channels, 4, 3, padding=1)
        self.left = nn.Conv2d(4, 4, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(4)
        self.right = nn.Conv2d(4, 4, 1)
        self.scale = nn.Parameter(torch.linspace(0.5, 1.5, 4)[:, None, None])
        self.head = nn.Linear(4, outputs)

    def forward(self, x):
        x = torch.relu(self.first(x))
        x = x * self.scale + self.norm(self.left(x)) * torch.sigmoid(self.right(x))
        return self.head(functional.max_pool2d(x, 2, ceil_mode=True).mean((2, 3)))


@st.composite
def plain_networks(draw, channels, size):
    """A grouped, strided, padded convolution between others, and one or two linear layers."""
    groups = draw(st.sampled_from([1, 1, 2]))
    middle = 2 * draw(st.integers(1, 2))
    kernel = (draw(st.integers(1, 3)), draw(st.integers(1, 3)))
    layers = [nn.Conv2d(channels, middle, draw(st.sampled_from([1, 3])), padding=1, bias=draw(st.booleans()))]
    layers.append(draw(st.sampled_from([nn.ReLU(inplace=True), nn.Tanh(), nn.Identity()])))
    layers.append(
        nn.Conv2d(
            middle,
            2 * draw(st.integers(1, 2)),
            kernel,
            stride=(draw(st.integers(1, 2)), draw(st.integers(1, 3))),
            padding=tuple(draw(st.integers(0, k - 1)) for k in kernel),
            dilation=draw(st.integers(1, 2)),
            groups=draw(st.sampled_from([groups, middle])) if groups > 1 and middle == 2 else groups,
            bias=draw(st.booleans()),
            padding_mode=draw(st.sampled_from(["zeros", "circular", "replicate"])),
        )
    )
    layers += [
        nn.ReLU(),
        draw(st.sampled_from([nn.MaxPool2d(2, ceil_mode=True), nn.AvgPool2d(1), nn.Identity()])),
    ]
    layers.append(nn.Flatten())
    with torch.no_grad():
        features = nn.Sequential(*layers)(torch.zeros(1, channels, *size)).shape[1]
    if draw(st.booleans()):
        layers += [nn.Linear(features, 5, bias=draw(st.booleans())), nn.ReLU()]
        features = 5
    layers.append(nn.Linear(features, draw(st.integers(1, 3)), bias=draw(st.booleans())))
    return nn.Sequential(*layers)


@st.composite
def networks_and_images(draw):
    """A network in double precision and a few images: one or many, duplicates, not square."""
    torch.manual_seed(draw(st.integers(0, 999)))
    channels, size = draw(st.integers(1, 2)), (draw(st.integers(5, 8)), draw(st.integers(5, 7)))
    kind = draw(st.sampled_from(["plain", "plain", "plain", "twice", "shared", "residual"]))
    if kind == "plain":
        model = draw(plain_networks(channels, size))
    else:
        model = {"twice": Twice, "shared": Shared, "residual": Residual}[kind](
            channels, draw(st.integers(1, 3))
        )
    for module in model.modules():
        if isinstance(module, nn.BatchNorm2d):
            module.running_mean.normal_()
            module.running_var.uniform_(0.5, 2.0)
    images = torch.randn(draw(st.integers(1, 4)), channels, *size, dtype=torch.float64)
    if draw(st.booleans()):
        images = torch.cat([images, images[:1]])
    return model.double(), images
