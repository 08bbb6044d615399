"""ONNX files written by hand: the wire format is numbers, lengths and bytes."""

import struct
from pathlib import Path

import torch

TYPES = {torch.float32: 1, torch.uint8: 2, torch.int64: 7, torch.float16: 10, torch.float64: 11}


def varint(number):
    number %= 1 << 64
    out = b""
    while number > 127:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number, content):
    if isinstance(content, int):
        return varint(number << 3) + varint(content)
    if isinstance(content, float):
        return varint(number << 3 | 5) + struct.pack("<f", content)
    content = content.encode() if isinstance(content, str) else content
    return varint(number << 3 | 2) + varint(len(content)) + content


def tensor_message(tensor, name=""):
    sides = b"".join(field(1, side) for side in tensor.shape)
    raw = field(9, tensor.contiguous().numpy().tobytes())
    return sides + field(2, TYPES[tensor.dtype]) + field(8, name) + raw


def attribute_message(name, value):
    if isinstance(value, torch.Tensor):
        return field(1, name) + field(5, tensor_message(value)) + field(20, 4)
    if isinstance(value, list):
        return field(1, name) + b"".join(field(8, one) for one in value) + field(20, 7)
    number, kind = {int: (3, 2), float: (2, 1), str: (4, 3)}[type(value)]
    return field(1, name) + field(number, value) + field(20, kind)


def node_message(kind, inputs, outputs, *, domain="", name="", **attributes):
    return (
        b"".join(field(1, one) for one in inputs)
        + b"".join(field(2, one) for one in outputs)
        + field(3, name)
        + field(4, kind)
        + b"".join(field(5, attribute_message(key, value)) for key, value in attributes.items())
        + (field(7, domain) if domain else b"")
    )


def value_message(name, shape):
    """An input or output; None leaves a side open."""
    sides = b"".join(field(1, field(2, "n") if side is None else field(1, side)) for side in shape)
    return field(1, name) + field(2, field(1, field(1, 1) + field(2, sides)))


def write_onnx(path: Path, nodes, *, inputs, outputs=("y",), tensors=None, opset=17):
    """Write a network of nodes, each (kind, inputs, outputs, attributes)."""
    graph = b"".join(
        field(1, node_message(*node[:3], **(node[3] if len(node) > 3 else {}))) for node in nodes
    )
    graph += b"".join(field(5, tensor_message(value, name)) for name, value in (tensors or {}).items())
    graph += b"".join(field(11, value_message(name, shape)) for name, shape in inputs.items())
    graph += b"".join(field(12, value_message(name, [])) for name in outputs)
    path.write_bytes(field(1, 8) + field(7, graph) + field(8, field(1, "") + field(2, opset)))
    return path
