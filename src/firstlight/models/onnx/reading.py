"""What an ONNX file says: operations, attributes, stored tensors. Nothing in the file is run."""

import math
import struct
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import guarded, read_bytes

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5  # kinds of fields on the wire
_DAMAGED = "the file ends early or is not protobuf"
# fields of ONNX's messages, as numbered in its public schema
GRAPH, OPSET = 7, 8
OPSET_DOMAIN, OPSET_VERSION = 1, 2
NODE, INITIALIZER, INPUT, OUTPUT, SPARSE = 1, 5, 11, 12, 15
NODE_INPUT, NODE_OUTPUT, NODE_NAME, NODE_KIND, NODE_ATTRIBUTE, NODE_DOMAIN = 1, 2, 3, 4, 5, 7
ATTRIBUTE_NAME, ATTRIBUTE_TYPE = 1, 20
FLOAT, INT, STRING, TENSOR, FLOATS, INTS = 2, 3, 4, 5, 7, 8
DIMS, DATA_TYPE, FLOATS_32, INTS_32, INTS_64, NAME, RAW, DOUBLES, LOCATION = 1, 2, 4, 5, 7, 8, 9, 10, 14
VALUE_NAME, VALUE_TYPE = 1, 2

DTYPES = {
    1: torch.float32,
    2: torch.uint8,
    3: torch.int8,
    6: torch.int32,
    7: torch.int64,
    9: torch.bool,
    10: torch.float16,
    11: torch.float64,
    16: torch.bfloat16,
}
_TYPED = {FLOATS_32: torch.float32, DOUBLES: torch.float64}
_OWN = ("", "ai.onnx")


@dataclass(frozen=True)
class Node:
    """One operation: its kind, the names of what goes in and comes out, its attributes."""

    kind: str
    name: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    attributes: dict[str, Any]


@dataclass
class Graph:
    """Operations in the order in which they run, stored tensors, and what the network takes and returns.

    Parameters
    ----------
    opset : int
        Version of the operations.
    nodes : list of Node
        Operations, each after those that it depends on.
    tensors : dict of str to Tensor
        Stored tensors by name; floating-point numbers of any precision as float32.
    inputs : dict of str to list of int or None
        Names of the inputs with the sides of their shapes; None where the file leaves a side open.
    outputs : list of str
        Names of the outputs.
    """

    opset: int = 0
    nodes: list[Node] = field(default_factory=list)
    tensors: dict[str, Tensor] = field(default_factory=dict)
    inputs: dict[str, list[int | None]] = field(default_factory=dict)
    outputs: list[str] = field(default_factory=list)


def fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and content of each field; bytes are views, nothing is copied.

    Examples
    --------
    >>> [(number, value) for number, value in fields(memoryview(bytes([8, 150, 1])))]
    [(1, 150)]
    """
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        number, kind = key >> 3, key & 7
        if kind == VARINT:
            value, at = _varint(message, at)
            yield number, value
            continue
        if kind == LENGTH:
            size, at = _varint(message, at)
        elif kind in (EIGHT_BYTES, FOUR_BYTES):
            size = 8 if kind == EIGHT_BYTES else 4
        else:
            raise ValueError(_DAMAGED)
        if at + size > len(message):
            raise ValueError(_DAMAGED)
        yield number, message[at : at + size]
        at += size


def read_graph(path: Path) -> Graph:
    """Read the graph that an ONNX file holds; whatever is wrong with the file is one line.

    Parameters
    ----------
    path : Path
        The file. Weights in other files beside it are refused: their names are chosen by the file.
    """
    graph = Graph()
    with guarded(path, "ONNX"):
        for number, content in fields(memoryview(read_bytes(path))):
            if number == OPSET and isinstance(content, memoryview):
                parts = dict(fields(content))
                if _text(parts.get(OPSET_DOMAIN, b"")) in _OWN:
                    graph.opset = _whole(parts.get(OPSET_VERSION, 0))
            elif number == GRAPH and isinstance(content, memoryview):
                _read_into(graph, content)
        for name in graph.tensors:  # files of the first versions list weights as inputs too
            graph.inputs.pop(name, None)
        if not graph.nodes or not graph.inputs or not graph.outputs:
            raise ValueError("it holds no network")
    return graph


def onnx_tensors(path: Path) -> dict[str, Tensor]:
    """Tensors of floating-point numbers that an ONNX file stores, by name; nothing else of the file is read."""
    graph = Graph()
    with guarded(path, "ONNX"):
        for number, content in fields(memoryview(read_bytes(path))):
            if number == GRAPH and isinstance(content, memoryview):
                for inner, tensor in fields(content):
                    if inner == INITIALIZER and isinstance(tensor, memoryview):
                        graph.tensors |= [_tensor(tensor)]
    return {name: tensor for name, tensor in graph.tensors.items() if tensor.is_floating_point()}


def _read_into(graph: Graph, message: memoryview) -> None:
    for number, content in fields(message):
        if not isinstance(content, memoryview):
            continue
        if number == NODE:
            graph.nodes.append(_node(content))
        elif number == INITIALIZER:
            name, tensor = _tensor(content)
            graph.tensors[name] = tensor
        elif number == INPUT:
            name, sides = _value(content)
            graph.inputs[name] = sides
        elif number == OUTPUT:
            graph.outputs.append(_value(content)[0])
        elif number == SPARSE:
            raise ValueError("it holds sparse weights")


def _node(message: memoryview) -> Node:
    kind = name = domain = ""
    inputs: list[str] = []
    outputs: list[str] = []
    attributes: dict[str, Any] = {}
    for number, content in fields(message):
        if number == NODE_INPUT:
            inputs.append(_text(content))
        elif number == NODE_OUTPUT:
            outputs.append(_text(content))
        elif number == NODE_NAME:
            name = _text(content)
        elif number == NODE_KIND:
            kind = _text(content)
        elif number == NODE_DOMAIN:
            domain = _text(content)
        elif number == NODE_ATTRIBUTE and isinstance(content, memoryview):
            key, value = _attribute(content)
            attributes[key] = value
    kind = kind if domain in _OWN else f"{domain}.{kind}"
    return Node(kind, name, tuple(inputs), tuple(outputs), attributes)


def _attribute(message: memoryview) -> tuple[str, Any]:
    """Name and value; a value of a kind that no layer here has, such as a graph, is None."""
    name = ""
    values: dict[int, Any] = {}
    lists: dict[int, list[Any]] = {FLOATS: [], INTS: []}
    kind = 0
    for number, content in fields(message):
        if number == ATTRIBUTE_NAME:
            name = _text(content)
        elif number == ATTRIBUTE_TYPE:
            kind = _whole(content)
        elif number == FLOATS:
            lists[FLOATS] += _floats(content)
        elif number == INTS:
            lists[INTS] += _ints(content)
        elif number == FLOAT:
            values[1] = _floats(content)[0]
        elif number == INT:
            values[2] = _signed(_whole(content))
        elif number == STRING:
            values[3] = _text(content)
        elif number == TENSOR and isinstance(content, memoryview):
            values[4] = _tensor(content)[1]
    # kinds of attributes: 1 float, 2 integer, 3 string, 4 tensor, 6 floats, 7 integers; absent numbers are zero
    values |= {6: lists[FLOATS], 7: lists[INTS]}
    return name, values.get(kind, {1: 0.0, 2: 0, 3: ""}.get(kind))


def _tensor(message: memoryview) -> tuple[str, Tensor]:
    shape: list[int] = []
    name, kind, content = "", 0, b""
    numbers: list[int] = []
    source = torch.float32
    for number, value in fields(message):
        if number == DIMS:
            shape += _ints(value)
        elif number == DATA_TYPE:
            kind = _whole(value)
        elif number == NAME:
            name = _text(value)
        elif number == LOCATION and value == 1:
            raise InvalidInput(
                "the weights must lie in the ONNX file; they lie in another one beside it. Save the model as one "
                "file, with `onnx.save(onnx.load(PATH), NEW_PATH)`."
            )
        elif number in (INTS_32, INTS_64):
            numbers += _ints(value)
        elif number in (*_TYPED, RAW) and isinstance(value, memoryview):
            content, source = content + bytes(value), _TYPED.get(number, DTYPES.get(kind, torch.float32))
    if kind not in DTYPES:
        raise ValueError(f"tensor {name!r} is of a type that networks here do not have (number {kind})")
    if numbers:
        return name, _of_numbers(numbers, DTYPES[kind], shape)
    size = math.prod(shape)
    if min(shape, default=0) < 0 or size * source.itemsize != len(content):
        raise ValueError(f"tensor {name!r} must hold {shape} numbers, but its bytes do not fit")
    if not content:
        return name, torch.zeros(shape, dtype=_kept(DTYPES[kind]))
    return name, torch.frombuffer(bytearray(content), dtype=source).reshape(shape).to(_kept(DTYPES[kind]))


def _of_numbers(numbers: list[int], dtype: torch.dtype, shape: list[int]) -> Tensor:
    """A tensor stored as whole numbers; half precision is stored as its bits."""
    if dtype.is_floating_point:
        bits = torch.tensor([number & 0xFFFF for number in numbers], dtype=torch.uint16)
        return bits.view(dtype).float().reshape(shape)
    return torch.tensor(numbers, dtype=torch.int64).to(dtype).reshape(shape)


def _kept(dtype: torch.dtype) -> torch.dtype:
    return torch.float32 if dtype.is_floating_point else dtype


def _value(message: memoryview) -> tuple[str, list[int | None]]:
    """Name of an input or output, and the sides of its shape."""
    name: str = ""
    sides: list[int | None] = []
    for number, content in fields(message):
        if number == VALUE_NAME:
            name = _text(content)
        elif number == VALUE_TYPE and isinstance(content, memoryview):
            sides = list(_sides(content))
    return name, sides


def _sides(message: memoryview) -> Iterator[int | None]:
    """Sides of a tensor's shape, None where the file leaves them open: type 1, shape 2, dimension 1, number 1."""
    for tensor in _inner(message, 1):
        for shape in _inner(tensor, 2):
            for dimension in _inner(shape, 1):
                sides = [value for number, value in fields(dimension) if number == 1]
                yield next((side for side in sides if isinstance(side, int) and side > 0), None)


def _inner(message: memoryview, number: int) -> Iterator[memoryview]:
    return (content for key, content in fields(message) if key == number and isinstance(content, memoryview))


def _text(content: int | bytes | memoryview) -> str:
    return "" if isinstance(content, int) else bytes(content).decode()


def _whole(content: int | bytes | memoryview) -> int:
    if not isinstance(content, int):
        raise ValueError("a number was expected")
    return content


def _signed(number: int) -> int:
    """Negative numbers are stored as their complement in 64 bits."""
    return number - (1 << 64) if number >= 1 << 63 else number


def _ints(content: int | memoryview) -> list[int]:
    """One number, or many that are packed: the fields of a message without their keys."""
    if isinstance(content, int):
        return [_signed(content)]
    numbers, at = [], 0
    while at < len(content):
        number, at = _varint(content, at)
        numbers.append(_signed(number))
    return numbers


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        if at >= len(message) or shift > 63:
            raise ValueError(_DAMAGED)
        byte = message[at]
        value |= (byte & 127) << shift
        at, shift = at + 1, shift + 7
        if byte < 128:
            return value, at


def _floats(content: int | memoryview) -> list[float]:
    data = b"" if isinstance(content, int) else bytes(content)
    return list(struct.unpack(f"<{len(data) // 4}f", data))
