"""One guard for bytes that others wrote: what may be opened, how large it may become, how it may fail."""

import csv
import json
import os
import re
import stat
import struct
import zipfile
import zlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firstlight._internal.environment import free_memory
from firstlight._internal.errors import FirstlightError, InvalidInput

SMALL = 64 << 20
"""Bytes that any file may unfold to, whatever its own size."""

RATIO = 100
"""How many times its own size a larger file may unfold to. Images reach 10; only made-up files reach 1000."""

_JSON_BYTES = 1 << 30
FAILURES = (
    ArithmeticError, AssertionError, AttributeError, EOFError, LookupError, MemoryError, NameError, OSError,
    RuntimeError, SyntaxError, TypeError, ValueError, csv.Error, struct.error, zipfile.BadZipFile, zlib.error,
)  # fmt: skip
"""What readers raise on bytes that nobody foresaw."""


def is_regular(path: Path) -> bool:
    """Whether a regular file is there, or a link to one: devices and pipes may never end."""
    try:
        return stat.S_ISREG(os.stat(path).st_mode)
    except (OSError, ValueError):  # a name may hold a zero byte
        return False


def demand_regular(path: Path) -> Path:
    """Refuse what is no regular file before it is opened: opening a pipe waits for its writer for ever."""
    if not is_regular(path):
        what = "is a folder" if path.is_dir() else "is a device or a pipe" if path.exists() else "is missing"
        raise InvalidInput(f"{path} must be a regular file; it {what}.")
    return path


def demand_plausible(path: Path, unfolded: int) -> None:
    """Refuse a file that would unfold to more than real data ever do.

    Parameters
    ----------
    path : Path
        The file as it lies on the disk.
    unfolded : int
        Bytes that it holds once decompressed.
    """
    size = path.stat().st_size
    if unfolded > max(SMALL, RATIO * size):
        raise InvalidInput(
            f"{path} is refused: its {size:,} bytes unfold to more than {max(SMALL, RATIO * size):,}, "
            "which no real data do. Unpack it yourself if you trust it."
        )


def demand_room(path: Path, unfolded: int) -> None:
    """Refuse a file that would unfold to more than is plausible, or than memory holds; as above."""
    demand_plausible(path, unfolded)
    free = free_memory()
    if unfolded > free:
        raise InvalidInput(
            f"{path} needs {unfolded / 1e9:.1f} GB of memory, but only {free / 1e9:.1f} GB are free."
        )


def demand_room_for_zip(path: Path) -> None:
    """Refuse an archive of arrays, or a torch checkpoint, that asks for too much memory or was damaged.

    All members of a zip archive together must pass :func:`demand_room`, and their checksums must fit: torch does not
    compare them. What cannot be opened as zip is left to its reader.
    """
    try:
        archive = zipfile.ZipFile(path)
    except FAILURES:
        with guarded(path, "weights"), path.open("rb") as file:
            _demand_no_allocation(iter(lambda: file.read(SMALL), b""))
        return
    with archive, guarded(path, "a zip archive"):
        members = archive.infolist()
        demand_room(path, sum(member.file_size for member in members))
        if not any(member.CRC for member in members):  # torch can be told to write none
            for member in members:
                member.CRC = None  # type: ignore[assignment]
        if damaged := archive.testzip():
            raise ValueError(f"{damaged} was changed after it was written")
        _demand_no_allocation(archive.read(member) for member in members if member.filename.endswith(".pkl"))


def _demand_no_allocation(blocks: Iterable[bytes]) -> None:
    """Refuse pickles that build a `bytearray`: torch lets them, and a few bytes then ask for any memory."""
    before = b""
    for block in blocks:
        if re.search(rb"c(__builtin__|builtins)\nbytearray\n", before + block):
            raise ValueError("it asks for a bytearray, which no weights need")
        before = block[-32:]  # the name may lie across two blocks


def read_bytes(path: Path) -> bytes:
    """Contents of a regular file that fits into memory."""
    demand_room(demand_regular(path), path.stat().st_size)
    return path.read_bytes()


def gunzipped(path: Path, packed: bytes) -> bytes:
    """Contents of all gzip members in `packed`, the bytes of `path`, within the limits of :func:`demand_room`."""
    blocks: list[bytes] = []
    unfolded = 0
    while packed:
        one = zlib.decompressobj(wbits=31)
        while not one.eof:
            block = one.decompress(packed, SMALL)
            packed = one.unconsumed_tail
            unfolded += len(block)
            demand_room(path, unfolded)
            blocks.append(block)
            if not block and not packed and not one.eof:
                raise EOFError("it ends early")
        packed = one.unused_data.lstrip(b"\0")  # some writers fill the last block with zeros
    return b"".join(blocks)


def read_json(path: Path) -> Any:
    """Contents of a JSON file; whatever is wrong with it is an InvalidInput, which is a ValueError."""
    with guarded(path, "JSON"):
        if demand_regular(path).stat().st_size > _JSON_BYTES:
            raise ValueError(f"it has more than {_JSON_BYTES >> 30} GB")
        return json.loads(path.read_text(encoding="utf-8"))


@contextmanager
def guarded(path: Path, format: str) -> Iterator[None]:
    """Turn whatever a reader raises, from a lack of memory to endless nesting, into one line about the file.

    Parameters
    ----------
    path : Path
        File that is read in the block.
    format : str
        What it should be, such as "JSON".
    """
    try:
        yield
    except FirstlightError:
        raise
    except FAILURES as error:
        raise InvalidInput(f"{path} cannot be read as {format}: {reason_of(error)}.") from error


def reason_of(error: BaseException) -> str:
    """First line of what an error says, in words where Python has none.

    Examples
    --------
    >>> reason_of(RecursionError("maximum recursion depth exceeded"))
    'it is nested too deeply'
    """
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, MemoryError):
        return "it asks for more memory than there is"
    lines = str(error).strip().splitlines()
    return (lines[0] if lines else type(error).__name__)[:200].rstrip(".")
