"""Layers of PyTorch for those operations of ONNX that have weights."""

from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput
from firstlight.models.onnx.reading import Node
from firstlight.models.onnx.shape_operations import padded, padding_of

CONVOLUTIONS: tuple[Any, ...] = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
LARGEST_STEP = 256  # padding, stride or dilation: a damaged file must not ask for any memory it likes
LARGEST_FACTOR = 32  # by which a transposed convolution may enlarge an image
TRANSPOSED: tuple[Any, ...] = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def layer_of(node: Node, tensors: dict[str, Tensor]) -> nn.Module | None:
    """The layer that a node stands for, or None if its weights are not stored but computed.

    Parameters
    ----------
    node : Node
        One of :data:`LAYERS`.
    tensors : dict of str to Tensor
        Stored tensors by name.
    """
    names = [name for name in node.inputs[1:] if name]
    if not names or any(name not in tensors for name in names):
        return None
    return LAYERS[node.kind](node, [tensors[name] for name in names])


class _Padded:
    """Pads as the file says, which may be more at one end than at the other, then convolves."""

    settings: dict[str, Any]
    kernel_size: tuple[int, ...]

    def forward(self, x: Tensor) -> Tensor:
        """Pad and convolve."""
        _, _, pads = padding_of(self.settings, x.shape[2:], self.kernel_size)
        result: Tensor = super().forward(padded(x, pads))  # type: ignore[misc]
        return result


class Conv1d(_Padded, nn.Conv1d):
    """A convolution with ONNX's padding."""


class Conv2d(_Padded, nn.Conv2d):
    """A convolution with ONNX's padding."""


class Conv3d(_Padded, nn.Conv3d):
    """A convolution with ONNX's padding."""


def _convolution(node: Node, stored: list[Tensor]) -> nn.Module:
    weight, *bias = stored
    n, groups = weight.ndim - 2, node.attributes.get("group", 1)
    _demand(1 <= n <= 3, f"a convolution over {n} axes")
    kernel = tuple(weight.shape[2:])
    strides, dilations, pads = padding_of(node.attributes, [1] * n, kernel)
    _demand(max(*strides, *dilations, *pads) <= LARGEST_STEP, "a convolution with such padding or stride")
    is_even = node.attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID") and pads[:n] == pads[n:]
    kinds = CONVOLUTIONS if is_even else (Conv1d, Conv2d, Conv3d)
    layer = kinds[n - 1](
        weight.shape[1] * groups,
        weight.shape[0],
        kernel,
        stride=tuple(strides),
        padding=tuple(pads[:n]) if is_even else 0,
        dilation=tuple(dilations),
        groups=groups,
        bias=bool(bias),
        device="meta",
    )
    if not is_even:
        layer.settings = node.attributes
    return _filled(layer, weight, bias)


def _transposed(node: Node, stored: list[Tensor]) -> nn.Module:
    weight, *bias = stored
    n, groups = weight.ndim - 2, node.attributes.get("group", 1)
    _demand(1 <= n <= 3, f"a transposed convolution over {n} axes")
    strides, dilations, pads = padding_of(node.attributes, [1] * n, tuple(weight.shape[2:]))
    is_even = node.attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID") and pads[:n] == pads[n:]
    _demand(is_even and "output_shape" not in node.attributes, "a transposed convolution with uneven padding")
    _demand(max(*strides, *dilations, *pads) <= LARGEST_FACTOR, "a transposed convolution with such a stride")
    layer = TRANSPOSED[n - 1](
        weight.shape[0],
        weight.shape[1] * groups,
        tuple(weight.shape[2:]),
        stride=tuple(strides),
        padding=tuple(pads[:n]),
        output_padding=tuple(node.attributes.get("output_padding") or [0] * n),
        groups=groups,
        bias=bool(bias),
        dilation=tuple(dilations),
        device="meta",
    )
    return _filled(layer, weight, bias)


def _linear(node: Node, stored: list[Tensor]) -> nn.Module | None:
    """A linear layer, unless the product is scaled or transposed in a way that no layer has."""
    weight, *bias = stored
    settings = node.attributes
    plain = settings.get("alpha", 1.0) == 1.0 and not settings.get("transA", 0)
    if weight.ndim != 2 or not plain or (bias and settings.get("beta", 1.0) != 1.0):
        return None
    weight = weight if settings.get("transB", 0) else weight.mT
    if bias and bias[0].numel() != len(weight):
        return None
    bias = [one.flatten() for one in bias]
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias=bool(bias), device="meta")
    return _filled(layer, weight, bias)


class BatchNorm(nn.modules.batchnorm._BatchNorm):
    """Normalises the second of any number of axes."""

    def _check_input_dim(self, input: Tensor) -> None:
        """Take any: ONNX has one operation for all of them."""


def _batch_norm(node: Node, stored: list[Tensor]) -> nn.Module:
    scale, shift, mean, variance = stored
    layer = BatchNorm(len(scale), eps=node.attributes.get("epsilon", 1e-5), device="meta")
    _filled(layer, scale, [shift])
    layer.running_mean, layer.running_var = mean.clone(), variance.clone()
    layer.num_batches_tracked = torch.tensor(0)
    return layer


def _layer_norm(node: Node, stored: list[Tensor]) -> nn.Module | None:
    scale, *shift = stored
    if node.attributes.get("axis", -1) not in (-1, -scale.ndim):
        return None
    layer = nn.LayerNorm(
        tuple(scale.shape), eps=node.attributes.get("epsilon", 1e-5), bias=bool(shift), device="meta"
    )
    return _filled(layer, scale, shift)


def _filled(layer: nn.Module, weight: Tensor, bias: list[Tensor]) -> nn.Module:
    """Put stored weights in the place of those that the layer would draw."""
    for name, tensor in zip(("weight", "bias"), (weight, *bias), strict=False):
        expected = getattr(layer, name).shape
        _demand(
            tensor.shape == expected, f"a {type(layer).__name__} with a {name} of shape {list(tensor.shape)}"
        )
        layer._parameters[name] = nn.Parameter(tensor.contiguous())
    return layer


def _demand(holds: bool, what: str) -> None:
    if not holds:
        raise InvalidInput(f"{what} is not known here.")


LAYERS = {
    "Conv": _convolution,
    "ConvTranspose": _transposed,
    "Gemm": _linear,
    "MatMul": _linear,
    "BatchNormalization": _batch_norm,
    "LayerNormalization": _layer_norm,
}
