"""ONNX's operations on shapes and places: cutting, padding, pooling, resizing. None may make a tensor of any size."""

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.errors import InvalidInput

Operation = Callable[..., Any]
LARGEST = 1 << 28
"""Numbers that one operation may make out of nothing: a file must not ask for any memory it likes."""


def integers(tensor: Tensor | Sequence[int] | int) -> list[int]:
    """Sides, axes or places as whole numbers, from a tensor or an attribute."""
    if isinstance(tensor, Tensor):
        return [int(number) for number in tensor.flatten().tolist()]
    return [int(number) for number in ([tensor] if isinstance(tensor, int) else tensor)]


def demand_size(shape: Sequence[int]) -> list[int]:
    """Refuse to make a tensor out of nothing that is larger than images and their maps are."""
    if min(shape, default=1) < 0 or math.prod(shape) > LARGEST:
        raise InvalidInput(
            f"the ONNX file asks for a tensor of shape {list(shape)}, which no network on images needs."
        )
    return list(shape)


# ---------------------------------------------------------------- padding and pooling


def padding_of(
    attributes: dict[str, Any], sides: Sequence[int], kernel: Sequence[int]
) -> tuple[list[int], list[int], list[int]]:
    """Stride, dilation and padding (all beginnings, then all ends) of a convolution or a pooling."""
    n = len(kernel)
    strides = attributes.get("strides") or [1] * n
    dilations = attributes.get("dilations") or [1] * n
    automatic = attributes.get("auto_pad", "NOTSET")
    if automatic in ("SAME_UPPER", "SAME_LOWER"):
        missing = [
            max((-(-side // step) - 1) * step + (k - 1) * spread + 1 - side, 0)
            for side, step, k, spread in zip(sides, strides, kernel, dilations, strict=True)
        ]
        small, large = [m // 2 for m in missing], [m - m // 2 for m in missing]
        pads = small + large if automatic == "SAME_UPPER" else large + small
        return strides, dilations, pads
    pads = [0] * (2 * n) if automatic == "VALID" else attributes.get("pads") or [0] * (2 * n)
    return strides, dilations, pads


def padded(x: Tensor, pads: Sequence[int], value: float = 0.0, mode: str = "constant") -> Tensor:
    """Pad, with `pads` in ONNX's order: the beginnings of all axes, then their ends."""
    n = len(pads) // 2
    if not any(pads):
        return x
    demand_size([max(side + extra, 0) for side, extra in zip(x.shape, _both_ends(pads, x.ndim), strict=True)])
    pairs = [pads[i + side * n] for i in reversed(range(n)) for side in (0, 1)]
    return F.pad(x, pairs, value=value) if mode == "constant" else F.pad(x, pairs, mode=mode)


def _both_ends(pads: Sequence[int], n_axes: int) -> list[int]:
    n = len(pads) // 2
    return [0] * (n_axes - n) + [pads[i] + pads[i + n] for i in range(n)]


def _max_pool(attributes: dict[str, Any], opset: int) -> Operation:
    kernel, ceil = attributes["kernel_shape"], bool(attributes.get("ceil_mode", 0))
    function: Any = (F.max_pool1d, F.max_pool2d, F.max_pool3d)[len(kernel) - 1]

    def pool(x: Tensor) -> Tensor:
        strides, dilations, pads = padding_of(attributes, x.shape[2:], kernel)
        x, own = _own_padding(x, pads, kernel, value=-math.inf)
        result: Tensor = function(x, kernel, strides, own, dilations, ceil_mode=ceil)
        return result

    return pool


def _average_pool(attributes: dict[str, Any], opset: int) -> Operation:
    kernel, ceil = attributes["kernel_shape"], bool(attributes.get("ceil_mode", 0))
    counts_padding = bool(attributes.get("count_include_pad", 0))
    function: Any = (F.avg_pool1d, F.avg_pool2d, F.avg_pool3d)[len(kernel) - 1]

    def pool(x: Tensor) -> Tensor:
        strides, _, pads = padding_of(attributes, x.shape[2:], kernel)
        inner, own = _own_padding(x, pads, kernel)
        mean: Tensor = function(inner, kernel, strides, own, ceil, counts_padding)
        if counts_padding or inner is x:
            return mean
        share: Tensor = function(padded(torch.ones_like(x[:1, :1]), pads), kernel, strides, 0, ceil)
        return mean / share

    return pool


def _own_padding(
    x: Tensor, pads: Sequence[int], kernel: Sequence[int], value: float = 0.0
) -> tuple[Tensor, list[int]]:
    """What PyTorch's pooling pads by itself, equal at both ends; anything else is padded before."""
    n = len(kernel)
    if list(pads[:n]) == list(pads[n:]) and all(2 * p <= k for p, k in zip(pads, kernel, strict=False)):
        return x, list(pads[:n])
    return padded(x, pads, value), [0] * n


# ---------------------------------------------------------------- shapes


def _reshape(attributes: dict[str, Any], opset: int) -> Operation:
    def reshape(x: Tensor, shape: Tensor | None = None) -> Tensor:
        sides = integers(attributes["shape"] if shape is None else shape)
        if not attributes.get("allowzero", 0):
            sides = [x.shape[i] if side == 0 else side for i, side in enumerate(sides)]
        return x.reshape(tuple(sides))

    return reshape


def _flatten(attributes: dict[str, Any], opset: int) -> Operation:
    axis = attributes.get("axis", 1)
    return lambda x: x.reshape(math.prod(x.shape[:axis]), -1)


def _transpose(attributes: dict[str, Any], opset: int) -> Operation:
    order = attributes.get("perm")
    return lambda x: x.permute(order or list(reversed(range(x.ndim))))


def _squeeze(attributes: dict[str, Any], opset: int) -> Operation:
    def squeeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
        given = attributes.get("axes") if axes is None else integers(axes)
        return x.squeeze(tuple(given)) if given else x.squeeze()

    return squeeze


def _unsqueeze(attributes: dict[str, Any], opset: int) -> Operation:
    def unsqueeze(x: Tensor, axes: Tensor | None = None) -> Tensor:
        given = attributes["axes"] if axes is None else integers(axes)
        for axis in sorted(axis % (x.ndim + len(given)) for axis in given):
            x = x.unsqueeze(axis)
        return x

    return unsqueeze


def _cut(attributes: dict[str, Any], opset: int) -> Operation:
    def cut(
        x: Tensor,
        starts: Tensor | None = None,
        ends: Tensor | None = None,
        axes: Tensor | None = None,
        steps: Tensor | None = None,
    ) -> Tensor:
        begin = integers(attributes["starts"] if starts is None else starts)
        end = integers(attributes["ends"] if ends is None else ends)
        along = attributes.get("axes") if axes is None else integers(axes)
        step = [1] * len(begin) if steps is None else integers(steps)
        for axis, a, b, s in zip(along or range(len(begin)), begin, end, step, strict=True):
            side = x.shape[axis]
            stop = None if s < 0 and b < -side else b  # as far as the beginning, which Python cannot number
            places = range(side)[slice(a, stop, s)]
            x = x.index_select(axis, torch.tensor(places, dtype=torch.int64, device=x.device))
        return x

    return cut


def _gather(attributes: dict[str, Any], opset: int) -> Operation:
    axis = attributes.get("axis", 0)

    def gather(x: Tensor, places: Tensor) -> Tensor:
        at = axis % x.ndim
        places = torch.where(places < 0, places + x.shape[at], places).to(x.device)
        picked = x.index_select(at, places.flatten())
        return picked.reshape((*x.shape[:at], *places.shape, *x.shape[at + 1 :]))

    return gather


def _parts_of(attributes: dict[str, Any], opset: int) -> Operation:
    axis = attributes.get("axis", 0)

    def split(x: Tensor, sizes: Tensor | None = None) -> tuple[Tensor, ...]:
        given = attributes.get("split") if sizes is None else integers(sizes)
        if given:
            return torch.split(x, given, axis)
        count = attributes.get("num_outputs") or attributes["n_outputs"]
        return torch.split(x, -(-x.shape[axis] // count), axis)

    return split


def _pad(attributes: dict[str, Any], opset: int) -> Operation:
    modes = {"constant": "constant", "reflect": "reflect", "edge": "replicate", "wrap": "circular"}
    mode = modes[attributes.get("mode", "constant")]

    def pad(x: Tensor, pads: Tensor | None = None, value: Tensor | None = None) -> Tensor:
        given = integers(attributes["pads"] if pads is None else pads)
        fill = attributes.get("value", 0.0) if value is None or not value.numel() else float(value)
        if mode != "constant":  # PyTorch pads all but the first two axes this way
            n = len(given) // 2
            given = [*given[2:n], *given[n + 2 :]]
        return padded(x, given, fill, mode)

    return pad


def _expanded(x: Tensor, shape: Tensor) -> Tensor:
    sides = torch.broadcast_shapes(x.shape, integers(shape))  # type: ignore[no-untyped-call]
    return x.expand(tuple(demand_size(sides)))


def _tiled(x: Tensor, repeats: Tensor) -> Tensor:
    times = integers(repeats)
    demand_size([side * n for side, n in zip(x.shape, times, strict=True)])
    return x.repeat(tuple(times))


def _constant_of_shape(attributes: dict[str, Any], opset: int) -> Operation:
    value = attributes.get("value", torch.zeros(1))
    return lambda shape: value.flatten()[0].expand(tuple(demand_size(integers(shape)))).clone()


def _counted(start: Tensor, limit: Tensor, step: Tensor) -> Tensor:
    count = max(math.ceil((float(limit) - float(start)) / float(step)), 0)
    demand_size([count])
    return start + step * torch.arange(count, dtype=start.dtype, device=start.device)


def _shape_of(attributes: dict[str, Any], opset: int) -> Operation:
    first, last = attributes.get("start", 0), attributes.get("end")
    return lambda x: torch.tensor(list(x.shape)[first:last], dtype=torch.int64)


def _resize(attributes: dict[str, Any], opset: int) -> Operation:
    kind = attributes.get("mode", "nearest")
    places = attributes.get("coordinate_transformation_mode", "asymmetric" if opset < 11 else "half_pixel")
    corners = places == "align_corners"
    is_known = kind in _RESIZED and (kind == "nearest" or corners or "half_pixel" in places)
    if not is_known or attributes.get("antialias", 0):
        raise InvalidInput(f"resizing with mode {kind!r} and coordinates {places!r} is not known here.")

    def resize(x: Tensor, *given: Tensor | None) -> Tensor:
        # Upsample takes scales; Resize takes a region of interest, scales and sizes
        scales, sizes = (given[0], None) if len(given) == 1 else (*given[1:], None, None)[:2]
        if sizes is not None and sizes.numel():
            sides = integers(sizes)[2:]
        else:
            factors = attributes["scales"] if scales is None else scales.flatten().tolist()
            sides = [int(side * factor) for side, factor in zip(x.shape[2:], factors[2:], strict=True)]
        demand_size([*x.shape[:2], *sides])
        if kind == "nearest":
            # the rules of rounding differ between files; they agree where every pixel becomes a block
            if any(new % old for new, old in zip(sides, x.shape[2:], strict=True)) and places != "asymmetric":
                raise InvalidInput("resizing to the nearest pixel is known here for whole factors only.")
            return F.interpolate(x, sides, mode="nearest")
        return F.interpolate(x, sides, mode=_RESIZED[kind][x.ndim - 3], align_corners=corners)

    return resize


_RESIZED = {"nearest": (), "linear": ("linear", "bilinear", "trilinear"), "cubic": ("", "bicubic", "")}

ON_SHAPES: dict[str, Operation] = {"Expand": _expanded, "Range": _counted, "Tile": _tiled}
"""Operations without settings, by ONNX's names."""

ON_SHAPES_AS_SET: dict[str, Callable[[dict[str, Any], int], Operation]] = {
    "AveragePool": _average_pool,
    "ConstantOfShape": _constant_of_shape,
    "Flatten": _flatten,
    "Gather": _gather,
    "MaxPool": _max_pool,
    "Pad": _pad,
    "Reshape": _reshape,
    "Resize": _resize,
    "Shape": _shape_of,
    "Slice": _cut,
    "Split": _parts_of,
    "Squeeze": _squeeze,
    "Transpose": _transpose,
    "Unsqueeze": _unsqueeze,
    "Upsample": _resize,
}
"""Functions that make an operation from the settings of a node and the version of ONNX's operations."""
