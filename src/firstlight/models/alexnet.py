"""AlexNet in the layout, and under the parameter names, of torchvision."""

from torch import Tensor, nn

from firstlight._internal.shapes import Images
from firstlight.models.building import Shape, dropout_slot, register_model, require_side, scaled


class AlexNet(nn.Module):
    """Five convolutions, 6 x 6 adaptive average pooling, three fully connected layers."""

    def __init__(self, in_channels: int, *, classes: int, width: float | int, dropout: float) -> None:
        super().__init__()
        c1, c2, c3, c4, c5 = (scaled(n, width) for n in (64, 192, 384, 256, 256))
        units = scaled(4096, width)
        self.features = nn.Sequential(
            nn.Conv2d(in_channels, c1, 11, stride=4, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(c1, c2, 5, padding=2),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
            nn.Conv2d(c2, c3, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(c3, c4, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(c4, c5, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(3, stride=2),
        )
        self.avgpool = nn.AdaptiveAvgPool2d((6, 6))
        self.classifier = nn.Sequential(
            dropout_slot(dropout),
            nn.Linear(c5 * 36, units),
            nn.ReLU(),
            dropout_slot(dropout),
            nn.Linear(units, units),
            nn.ReLU(),
            nn.Linear(units, classes),
        )

    def forward(self, x: Images) -> Tensor:
        """Class scores."""
        scores: Tensor = self.classifier(self.avgpool(self.features(x)).flatten(1))
        return scores


@register_model("alexnet")
def alexnet(*, classes: int, shape: Shape, width: float | int = 1, dropout: float = 0.0) -> AlexNet:
    """AlexNet of Linearized: every channel and hidden width times the factor, dropout removed.

    State dicts of torchvision's `alexnet` load unchanged. Images of at least 63 x 63 pixels.
    """
    require_side(shape, 63, name="AlexNet")
    return AlexNet(shape[0], classes=classes, width=width, dropout=dropout)
