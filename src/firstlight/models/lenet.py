"""LeNet-5 with ReLU and max pooling, in any width."""

from collections import OrderedDict

from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight.models.building import Shape, register_model, require_at_least, scaled


@register_model("lenet")
def lenet(*, classes: int, shape: Shape, width: float | int = 1, padding: int | None = None) -> nn.Sequential:
    """LeNet of Linearized: conv 6 - pool - conv 16 - pool - 120 - 84 - classes, times the width factor.

    `padding` of the first layer is 2 for images up to 28 pixels and 0 for larger ones, unless given, so
    that 28 x 28 and 32 x 32 both end at 5 x 5 positions.
    """
    if padding is None:
        padding = 2 if min(shape[1:]) <= 28 else 0
    require_at_least(0, padding=padding)
    c1, c2, f1, f2 = (scaled(n, width) for n in (6, 16, 120, 84))
    height, breadth = (((side + 2 * padding - 4) // 2 - 4) // 2 for side in shape[1:])
    if height < 1 or breadth < 1:
        raise InvalidInput(
            f"`shape` is too small for LeNet: {shape[1]} x {shape[2]} pixels with padding {padding} leave "
            "nothing after two poolings. Use images of at least 12 x 12 with padding 2."
        )
    return nn.Sequential(
        OrderedDict[str, nn.Module](
            conv1=nn.Conv2d(shape[0], c1, 5, padding=padding),
            relu1=nn.ReLU(),
            pool1=nn.MaxPool2d(2),
            conv2=nn.Conv2d(c1, c2, 5),
            relu2=nn.ReLU(),
            pool2=nn.MaxPool2d(2),
            flatten=nn.Flatten(),
            fc1=nn.Linear(c2 * height * breadth, f1),
            relu3=nn.ReLU(),
            fc2=nn.Linear(f1, f2),
            relu4=nn.ReLU(),
            fc3=nn.Linear(f2, classes),
        )
    )
