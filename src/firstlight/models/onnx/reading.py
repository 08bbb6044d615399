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
        file = _Message(memoryview(read_bytes(path)))
        for version in file.messages(OPSET):
            if version.text(OPSET_DOMAIN) in _OWN:
                graph.opset = version.whole(OPSET_VERSION)
        for content in file.messages(GRAPH):
            if content.messages(SPARSE):
                raise ValueError("it holds sparse weights")
            graph.nodes += map(_node, content.messages(NODE))
            graph.tensors |= map(_tensor, content.messages(INITIALIZER))
            graph.inputs |= map(_value, content.messages(INPUT))
            graph.outputs += [_value(output)[0] for output in content.messages(OUTPUT)]
        for name in graph.tensors:  # files of the first versions list weights as inputs too
            graph.inputs.pop(name, None)
        if not graph.nodes or not graph.inputs or not graph.outputs:
            raise ValueError("it holds no network")
    return graph


class _Message:
    """Fields of a message by number; of one that may stand once, the last counts."""

    def __init__(self, content: memoryview) -> None:
        self.found: dict[int, list[int | memoryview]] = {}
        for number, value in fields(content):
            self.found.setdefault(number, []).append(value)

    def messages(self, number: int) -> list["_Message"]:
        return [_Message(part) for part in self.bytes(number)]

    def bytes(self, number: int) -> list[memoryview]:
        return [part for part in self.found.get(number, []) if isinstance(part, memoryview)]

    def text(self, number: int) -> str:
        return (self.texts(number) or [""])[-1]

    def texts(self, number: int) -> list[str]:
        return ["" if isinstance(part, int) else bytes(part).decode() for part in self.found.get(number, [])]

    def whole(self, number: int) -> int:
        value = self.found.get(number, [0])[-1]
        if not isinstance(value, int):
            raise ValueError("a number was expected")
        return value

    def integers(self, number: int) -> list[int]:
        return [value for part in self.found.get(number, []) for value in _ints(part)]

    def floats(self, number: int) -> list[float]:
        return [value for part in self.bytes(number) for value in struct.unpack(f"<{len(part) // 4}f", part)]


def _node(message: _Message) -> Node:
    kind, domain = message.text(NODE_KIND), message.text(NODE_DOMAIN)
    return Node(
        kind=kind if domain in _OWN else f"{domain}.{kind}",
        name=message.text(NODE_NAME),
        inputs=tuple(message.texts(NODE_INPUT)),
        outputs=tuple(message.texts(NODE_OUTPUT)),
        attributes=dict(map(_attribute, message.messages(NODE_ATTRIBUTE))),
    )


def _attribute(message: _Message) -> tuple[str, Any]:
    """Name and value; a value of a kind that no layer here has, such as a graph, is None."""
    # kinds of attributes: 1 float, 2 integer, 3 string, 4 tensor, 6 floats, 7 integers; absent numbers are zero
    kind = message.whole(ATTRIBUTE_TYPE)
    value: Any = None
    if kind == 1:
        value = (message.floats(FLOAT) or [0.0])[-1]
    elif kind == 2:
        value = _signed(message.whole(INT))
    elif kind == 3:
        value = message.text(STRING)
    elif kind == 4 and (tensors := message.messages(TENSOR)):
        value = _tensor(tensors[-1])[1]
    elif kind == 6:
        value = message.floats(FLOATS)
    elif kind == 7:
        value = message.integers(INTS)
    return message.text(ATTRIBUTE_NAME), value


def _tensor(message: _Message) -> tuple[str, Tensor]:
    name, kind, shape = message.text(NAME), message.whole(DATA_TYPE), message.integers(DIMS)
    if message.found.get(LOCATION, [0])[-1] == 1:
        raise InvalidInput(
            "the weights must lie in the ONNX file; they lie in another one beside it. Save the model as one "
            "file, with `onnx.save(onnx.load(PATH), NEW_PATH)`."
        )
    if kind not in DTYPES:
        raise ValueError(f"tensor {name!r} is of a type that networks here do not have (number {kind})")
    if numbers := message.integers(INTS_32) + message.integers(INTS_64):
        return name, _of_numbers(numbers, DTYPES[kind], shape)
    stored = {FLOATS_32: torch.float32, DOUBLES: torch.float64, RAW: DTYPES[kind]}
    field, source = next(((n, t) for n, t in stored.items() if message.bytes(n)), (RAW, DTYPES[kind]))
    content = b"".join(message.bytes(field))
    if min(shape, default=0) < 0 or math.prod(shape) * source.itemsize != len(content):
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


def _value(message: _Message) -> tuple[str, list[int | None]]:
    """Name of an input or output, and the sides of its shape, None where the file leaves them open.

    The shape lies below type 1, shape 2, dimension 1; a side is number 1 of a dimension.
    """
    sides: list[int | None] = []
    for kind in message.messages(VALUE_TYPE):
        shapes = [shape for tensor in kind.messages(1) for shape in tensor.messages(2)]
        for dimension in (dimension for shape in shapes for dimension in shape.messages(1)):
            given = [side for side in dimension.found.get(1, []) if isinstance(side, int) and side > 0]
            sides.append(given[0] if given else None)
    return message.text(VALUE_NAME), sides


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
