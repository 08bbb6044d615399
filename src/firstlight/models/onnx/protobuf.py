"""The wire format of protobuf, which ONNX files are written in: numbers, lengths and bytes."""

from collections.abc import Iterator

VARINT, EIGHT_BYTES, LENGTH, FOUR_BYTES = 0, 1, 2, 5
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
