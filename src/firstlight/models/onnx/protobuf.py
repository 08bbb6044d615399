"""Reading tensors out of ONNX files without a library: the wire format is numbers, lengths and bytes."""

from collections.abc import Iterator
from pathlib import Path

import torch
from torch import Tensor

from firstlight._internal.untrusted_files import guarded, read_bytes

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
# fields of ONNX's messages, as numbered in its public schema
GRAPH, INITIALIZER = 7, 5
DIMS, DATA_TYPE, FLOAT_DATA, NAME, RAW_DATA = 1, 2, 4, 8, 9
FLOAT = 1
_DAMAGED = "the file ends early or is not protobuf"


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


def onnx_tensors(path: Path) -> dict[str, Tensor]:
    """Float tensors that an ONNX file stores, by name.

    Parameters
    ----------
    path : Path
        The file; graphs are not run, only stored weights are read.
    """
    with guarded(path, "ONNX"):
        tensors = {}
        for number, graph in fields(memoryview(read_bytes(path))):
            if number == GRAPH and isinstance(graph, memoryview):
                for inner, content in fields(graph):
                    if inner == INITIALIZER and isinstance(content, memoryview):
                        name, tensor = _tensor(content)
                        if tensor is not None:
                            tensors[name] = tensor
    return tensors


def _tensor(message: memoryview) -> tuple[str, Tensor | None]:
    shape: list[int] = []
    name, kind, content = "", 0, b""
    for number, value in fields(message):
        if number == DIMS:
            shape += [value] if isinstance(value, int) else _packed(value)
        elif number == DATA_TYPE and isinstance(value, int):
            kind = value
        elif number == NAME and isinstance(value, memoryview):
            name = bytes(value).decode()
        elif number in (RAW_DATA, FLOAT_DATA) and isinstance(value, memoryview):
            content += bytes(value)
    if kind != FLOAT or not content:
        return name, None
    return name, torch.frombuffer(bytearray(content), dtype=torch.float32).reshape(shape)


def _packed(content: memoryview) -> list[int]:
    numbers, at = [], 0
    while at < len(content):
        number, at = _varint(content, at)
        numbers.append(number)
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
