"""Networks from an image to itself, those that are the identity exactly, and large filters by Fourier transform."""

import math

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight.models.building import Shape, register_model, require_at_least, require_odd
from firstlight.models.fully_connected import FullyConnected, ResidualBlock, ResidualFCN


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


def write_identity(model: nn.Module) -> nn.Module:
    """Overwrite the weights of `model`, in place, so that it returns every image unchanged.

    Linear layers become the identity matrix. With ReLU the first layer holds the positive and the
    negative part in separate units or channels, the middle passes them on, and the last subtracts; the
    hidden layers must be twice as wide as the image or its channels. Residual branches become zero.

    Parameters
    ----------
    model : torch.nn.Module
        A network of the family "identity_fcn", "identity_linear_fcn", "residual_fcn" or "identity_cnn".

    Returns
    -------
    torch.nn.Module
        The model itself.
    """
    with torch.no_grad():
        if isinstance(model, ResidualFCN):
            for block in model.children():
                if isinstance(block, ResidualBlock):
                    for parameter in block.fc2.parameters():
                        parameter.zero_()
        elif isinstance(model, IdentityCNN):
            middle = model.layers[0].kernel_size[0] // 2
            centres = [layer.weight[:, :, middle, middle] for layer in model.layers]
            _check_width(centres, linear=False)
            _clear(model)
            _write(centres, linear=False)
        elif isinstance(model, FullyConnected) and model.image:
            matrices: list[Tensor] = [layer.weight for layer in model.layers]
            _check_width(matrices, linear=model.linear)
            _clear(model)
            _write(matrices, linear=model.linear)
        else:
            raise InvalidInput(
                "`model` must be a network of the identity task (identity_fcn, identity_linear_fcn, "
                f"residual_fcn, identity_cnn); got {type(model).__name__}."
            )
    return model


def _check_width(matrices: list[Tensor], *, linear: bool) -> None:
    hidden, inputs = matrices[0].shape
    needed = inputs if linear else 2 * inputs
    if len(matrices) > 1 and hidden < needed:
        raise InvalidInput(
            f"hidden layers must be at least {needed} wide to hold the identity of {inputs} inputs; "
            f"got {hidden}. Build the model with more `units` or `channels`."
        )


def _clear(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.zero_()


def _write(matrices: list[Tensor], *, linear: bool) -> None:
    """Fill a chain of matrices, inputs to outputs, whose product is the identity."""
    inputs = matrices[0].shape[1]
    for matrix in matrices:
        matrix.copy_(torch.eye(*matrix.shape, dtype=matrix.dtype, device=matrix.device))
    if not linear and len(matrices) > 1:
        eye = torch.eye(inputs, dtype=matrices[0].dtype, device=matrices[0].device)
        matrices[0][inputs : 2 * inputs] = -eye
        matrices[-1][:, inputs : 2 * inputs] = -eye


def identity_fcn_linear(shape: Shape, *, depth: int, units: int | None = None) -> FullyConnected:
    """Linear network of `depth` layers that is the identity; `units` at least the image's size.

    Examples
    --------
    >>> x = torch.tensor([[[[1.0, -2.0]]]])
    >>> identity_fcn_linear((1, 1, 2), depth=3)(x).tolist()
    [[[[1.0, -2.0]]]]
    """
    inputs = math.prod(shape)
    units = inputs if units is None else units
    model = FullyConnected(
        shape, outputs=inputs, depth=depth, units=units, bias=False, linear=True, image=True
    )
    write_identity(model)
    return model


def identity_fcn_relu(shape: Shape, *, depth: int, units: int | None = None) -> FullyConnected:
    """ReLU network of `depth` layers that is the identity; `units` at least twice the image's size."""
    inputs = math.prod(shape)
    units = 2 * inputs if units is None else units
    model = FullyConnected(
        shape, outputs=inputs, depth=depth, units=units, bias=False, linear=False, image=True
    )
    write_identity(model)
    return model


def identity_cnn(
    in_channels: int, *, depth: int, kernel: int = 5, channels: int | None = None
) -> IdentityCNN:
    """ReLU network of `depth` convolutions that is the identity; `channels` at least twice the input's."""
    channels = 2 * in_channels if channels is None else channels
    model = IdentityCNN(in_channels, depth=depth, kernel=kernel, channels=channels, bias=False)
    write_identity(model)
    return model


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
