"""ONNX's operations as PyTorch's, as far as networks on images use them."""

import functools
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from firstlight.models.onnx.reading import DTYPES
from firstlight.models.onnx.shape_operations import (
    ON_SHAPES,
    ON_SHAPES_AS_SET,
    Operation,
    demand_size,
    integers,
)


def operation(kind: str, attributes: dict[str, Any], opset: int) -> Operation | None:
    """The function that carries out an operation, or None if it is not known here.

    Parameters
    ----------
    kind : str
        ONNX's name for it, such as "Relu".
    attributes : dict of str to object
        Settings of the node.
    opset : int
        Version of ONNX's operations.
    """
    if kind in _ELEMENTWISE:
        return _of_bounded_size(_ELEMENTWISE[kind])
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind in ON_SHAPES:
        return ON_SHAPES[kind]
    make = _MADE.get(kind) or ON_SHAPES_AS_SET.get(kind)
    return None if make is None else make(attributes, opset)


# ---------------------------------------------------------------- numbers


def _softmax(function: Callable[..., Tensor]) -> Callable[[dict[str, Any], int], Operation]:
    def make(attributes: dict[str, Any], opset: int) -> Operation:
        axis = attributes.get("axis", -1 if opset >= 13 else 1)
        if opset >= 13:
            return lambda x: function(x, dim=axis)
        # before version 13 all axes from `axis` on were one
        return lambda x: function(x.flatten(axis % x.ndim), dim=axis % x.ndim).reshape(x.shape)

    return make


def _reduce(function: Callable[..., Tensor]) -> Callable[[dict[str, Any], int], Operation]:
    def make(attributes: dict[str, Any], opset: int) -> Operation:
        keep = bool(attributes.get("keepdims", 1))

        def reduce(x: Tensor, axes: Tensor | None = None) -> Tensor:
            given = attributes.get("axes") if axes is None else integers(axes)
            if not given and attributes.get("noop_with_empty_axes", 0):
                return x
            return function(x, dim=given or list(range(x.ndim)), keepdim=keep)

        return reduce

    return make


def _clip(attributes: dict[str, Any], opset: int) -> Operation:
    def clip(x: Tensor, low: Tensor | None = None, high: Tensor | None = None) -> Tensor:
        least = attributes.get("min") if low is None else float(low)
        most = attributes.get("max") if high is None else float(high)
        return x if least is None and most is None else x.clamp(least, most)

    return clip


def _gemm(attributes: dict[str, Any], opset: int) -> Operation:
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)

    def multiply(a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
        a = a.mT if attributes.get("transA", 0) else a
        product: Tensor = alpha * (a @ (b.mT if attributes.get("transB", 0) else b))
        return product if c is None else product + beta * c

    return multiply


def _local_response(attributes: dict[str, Any], opset: int) -> Operation:
    size, alpha = attributes["size"], attributes.get("alpha", 1e-4)
    beta, k = attributes.get("beta", 0.75), attributes.get("bias", 1.0)
    return lambda x: F.local_response_norm(x, size, alpha, beta, k)


def _cast(attributes: dict[str, Any], opset: int) -> Operation:
    dtype = DTYPES[attributes["to"]]
    return lambda x: x.to(torch.float32 if dtype.is_floating_point else dtype)


def _constant(attributes: dict[str, Any], opset: int) -> Operation:
    for key, dtype in (("value_float", None), ("value_int", torch.int64), ("value_floats", None)):
        if key in attributes:
            value = torch.tensor(attributes[key], dtype=dtype)
            return lambda: value
    stored: Tensor = (
        torch.tensor(attributes["value_ints"], dtype=torch.int64)
        if "value_ints" in attributes
        else attributes["value"]
    )
    return lambda: stored


def _divide(a: Tensor, b: Tensor) -> Tensor:
    if a.is_floating_point() or b.is_floating_point():
        return a / b
    return torch.div(a, b, rounding_mode="trunc")


def _dropout(x: Tensor, *settings: Tensor) -> Tensor:
    return x


def _mean_over_places(x: Tensor) -> Tensor:
    return x.mean(list(range(2, x.ndim)), keepdim=True)


def _largest_over_places(x: Tensor) -> Tensor:
    return x.amax(list(range(2, x.ndim)), keepdim=True)


def _concatenate(attributes: dict[str, Any], opset: int) -> Operation:
    axis = attributes["axis"]
    return lambda *parts: torch.cat(parts, axis)


def _of_bounded_size(function: Operation) -> Operation:
    """An operation on pairs of numbers: two small tensors may span a large one."""

    def bounded(*parts: Tensor) -> Any:
        demand_size(torch.broadcast_shapes(*(part.shape for part in parts)))  # type: ignore[no-untyped-call]
        return function(*parts)

    return bounded


def _multiplied(a: Tensor, b: Tensor) -> Tensor:
    demand_size([*a.shape[:-1], b.shape[-1] if b.ndim > 1 else 1])
    return a @ b


_ELEMENTWISE: dict[str, Operation] = {
    "Add": torch.add,
    "Div": _divide,
    "And": torch.logical_and,
    "Equal": torch.eq,
    "Greater": torch.gt,
    "GreaterOrEqual": torch.ge,
    "Less": torch.lt,
    "LessOrEqual": torch.le,
    "Max": lambda *parts: functools.reduce(torch.maximum, parts),
    "Min": lambda *parts: functools.reduce(torch.minimum, parts),
    "Mul": torch.mul,
    "Or": torch.logical_or,
    "PRelu": lambda x, slope: torch.where(x > 0, x, slope * x),
    "Pow": torch.pow,
    "Sub": torch.sub,
    "Sum": lambda *parts: functools.reduce(torch.add, parts),
    "Where": lambda condition, a, b: torch.where(condition.bool(), a, b),
}
_PLAIN: dict[str, Operation] = {
    "Abs": torch.abs,
    "Ceil": torch.ceil,
    "Cos": torch.cos,
    "Dropout": _dropout,
    "Erf": torch.erf,
    "Exp": torch.exp,
    "Floor": torch.floor,
    "GlobalAveragePool": _mean_over_places,
    "GlobalMaxPool": _largest_over_places,
    "HardSwish": F.hardswish,
    "Identity": lambda x: x,
    "Log": torch.log,
    "MatMul": _multiplied,
    "Mish": F.mish,
    "Neg": torch.neg,
    "Not": torch.logical_not,
    "Round": torch.round,
    "Reciprocal": torch.reciprocal,
    "Relu": torch.relu,
    "Sigmoid": torch.sigmoid,
    "Sign": torch.sign,
    "Sin": torch.sin,
    "Softplus": F.softplus,
    "Sqrt": torch.sqrt,
    "Tanh": torch.tanh,
}
_MADE: dict[str, Callable[[dict[str, Any], int], Operation]] = {
    "Cast": _cast,
    "Clip": _clip,
    "Concat": _concatenate,
    "Constant": _constant,
    "Elu": lambda attributes, opset: lambda x: F.elu(x, attributes.get("alpha", 1.0)),
    "Gelu": lambda attributes, opset: lambda x: F.gelu(x, approximate=attributes.get("approximate", "none")),
    "Gemm": _gemm,
    "HardSigmoid": lambda attributes, opset: (
        lambda x: (attributes.get("alpha", 0.2) * x + attributes.get("beta", 0.5)).clamp(0, 1)
    ),
    "LRN": _local_response,
    "LeakyRelu": lambda attributes, opset: lambda x: F.leaky_relu(x, attributes.get("alpha", 0.01)),
    "LogSoftmax": _softmax(torch.log_softmax),
    "Mod": lambda attributes, opset: torch.fmod if attributes.get("fmod", 0) else torch.remainder,
    "ReduceL2": _reduce(torch.linalg.vector_norm),
    "ReduceMax": _reduce(torch.amax),
    "ReduceMean": _reduce(torch.mean),
    "ReduceMin": _reduce(torch.amin),
    "ReduceSum": _reduce(torch.sum),
    "Softmax": _softmax(torch.softmax),
}
