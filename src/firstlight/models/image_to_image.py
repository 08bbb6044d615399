"""Networks from an image to itself, those that are the identity exactly, and large filters by Fourier transform."""

import torch
from torch import Tensor, nn

from firstlight.models.building import Shape, register_model, require_at_least, require_odd


class IdentityCNN(nn.Sequential):
    """`depth` convolutions that keep the image size, ReLU between them, none at the end.

    Layers are called conv1 ... convL. Any input size is accepted, not only that of the training image.
    """

    def __init__(self, in_channels: int, *, depth: int, kernel: int, channels: int, bias: bool) -> None:
        require_at_least(1, depth=depth, channels=channels)
        require_odd(kernel=kernel)
        super().__init__()
        sizes = [in_channels, *[channels] * (depth - 1), in_channels]
        for index in range(1, depth + 1):
            layer = nn.Conv2d(sizes[index - 1], sizes[index], kernel, padding=kernel // 2, bias=bias)
            self.add_module(f"conv{index}", layer)
            if index < depth:
                self.add_module(f"relu{index}", nn.ReLU())

    @property
    def layers(self) -> list[nn.Conv2d]:
        """The convolutions, first to last."""
        return [module for module in self if isinstance(module, nn.Conv2d)]


@register_model("identity_cnn")
def image_cnn(
    *, classes: int, shape: Shape, depth: int = 5, kernel: int = 5, channels: int = 128, bias: bool = True
) -> IdentityCNN:
    """Network of the identity task: image in, image out, `depth` weight layers.

    The published counts leave biases out (``bias=False``); `classes` has no meaning here.
    """
    return IdentityCNN(shape[0], depth=depth, kernel=kernel, channels=channels, bias=bias)


LARGE = 25  # side of a filter from which the transform wins on small images (benchmarks/identity.py)


class FourierConv2d(nn.Conv2d):
    """A convolution with same zero padding and stride 1, computed through the Fourier transform.

    Cost O((c + o) s² log s + c o s²) for c channels in, o out and s = side + filter - 1, against
    O(c o side² filter²) of the direct sum.
    """

    def forward(self, input: Tensor) -> Tensor:
        """Multiply the transforms; padding by at least the filter keeps the ends apart."""
        h, w = input.shape[-2:]
        k = self.kernel_size[0]
        size = (h + k - 1, w + k - 1)
        spectrum = torch.fft.rfft2(self.weight, size).conj()
        product = torch.einsum("ncij,ocij->noij", torch.fft.rfft2(input, size), spectrum)
        whole = torch.fft.irfft2(product, size).roll((k // 2, k // 2), (2, 3))
        output: Tensor = whole[:, :, :h, :w]
        return output if self.bias is None else output + self.bias[:, None, None]


def with_large_filters_by_fourier(model: nn.Module, *, at_least: int = LARGE) -> nn.Module:
    """Compute large filters of `model` by Fourier transform, in place; parameters and names stay.

    Parameters
    ----------
    model : torch.nn.Module
        Any network; only convolutions with square odd filters of at least this side, same zero padding,
        stride 1 and no groups are changed.
    at_least : int, default LARGE
        Side of the filters from which on the transform is used.
    """
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if type(child) is nn.Conv2d and _fits_transform(child, at_least):
                replacement = FourierConv2d(
                    child.in_channels,
                    child.out_channels,
                    child.kernel_size[0],
                    padding=child.kernel_size[0] // 2,
                    bias=child.bias is not None,
                    device="meta",
                )
                replacement.weight, replacement.bias = child.weight, child.bias
                setattr(parent, name, replacement)
    return model


def _fits_transform(layer: nn.Conv2d, at_least: int) -> bool:
    k = layer.kernel_size[0]
    return (
        k >= at_least
        and k % 2 == 1
        and layer.kernel_size == (k, k)
        and layer.padding == (k // 2, k // 2)
        and layer.padding_mode == "zeros"
        and layer.stride == (1, 1)
        and layer.dilation == (1, 1)
        and layer.groups == 1
    )
