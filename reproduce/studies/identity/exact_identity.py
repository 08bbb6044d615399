"""Networks that are the identity exactly."""

import math

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight.models.building import Shape
from firstlight.models.fully_connected import FullyConnected, ResidualBlock, ResidualFCN
from firstlight.models.image_to_image import IdentityCNN


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
