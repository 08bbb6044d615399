"""Files of named tensors: written with clear errors, sealed by a checksum of everything they hold."""

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open

from firstlight._internal.untrusted_files import demand_regular, guarded

# two signs of a sealed file: one flipped bit cannot hide both, and so cannot pass it off as unsealed
_SEAL, _SIGN = "firstlight.sha256", "firstlight.sealed"
_TYPES = {
    torch.float64: "F64", torch.float32: "F32", torch.float16: "F16", torch.bfloat16: "BF16", torch.bool: "BOOL",
    torch.int64: "I64", torch.int32: "I32", torch.int16: "I16", torch.int8: "I8", torch.uint8: "U8",
    torch.complex64: "C64",
}  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class TensorFile:
    """What a file of tensors holds.

    Parameters
    ----------
    tensors : dict of str to Tensor
        The tensors by name.
    words : dict of str to str
        The text beside them.
    is_sealed : bool
        Whether this package sealed the file; if so, the seal is intact.
    """

    tensors: dict[str, torch.Tensor]
    words: dict[str, str]
    is_sealed: bool


def save_tensors(
    path: Path, tensors: Mapping[str, torch.Tensor], words: Mapping[str, str] | None = None
) -> None:
    """Write tensors and words to `path` in the format of safetensors; equal contents are equal bytes.

    safetensors itself writes words in any order, and beside `path` a file that a killed process leaves behind.
    """
    header: dict[str, Any] = {"__metadata__": dict(sorted(words.items()))} if words else {}
    # the widest first, so that each begins at a multiple of its own width
    ordered = sorted(tensors.items(), key=lambda item: (-item[1].element_size(), item[0]))
    end = 0
    for name, tensor in ordered:
        start, end = end, end + tensor.numel() * tensor.element_size()
        header[name] = {
            "dtype": _TYPES[tensor.dtype], "shape": list(tensor.shape), "data_offsets": [start, end]
        }  # fmt: skip
    text = json.dumps(header, separators=(",", ":"), ensure_ascii=False).encode()
    with path.open("wb") as file:
        file.write(struct.pack("<Q", len(text) + -len(text) % 8))
        file.write(text + b" " * (-len(text) % 8))
        for _, tensor in ordered:
            file.write(_bytes_of(tensor))


def save_sealed(
    path: Path, tensors: Mapping[str, torch.Tensor], words: Mapping[str, str] | None = None
) -> None:
    """Write tensors and words with a checksum of all of them, which :func:`load_sealed` compares."""
    sealed = {name: _as_utf8(text) for name, text in (words or {}).items()} | {_SIGN: "yes"}
    save_tensors(path, tensors, {**sealed, _SEAL: _seal(tensors, sealed)})


def load_tensors(path: Path, *, format: str = "tensors") -> TensorFile:
    """Read a file of tensors; one of ours is refused with InvalidInput if a bit has changed.

    Parameters
    ----------
    path : Path
        File in the format of safetensors.
    format : str, default 'tensors'
        What the error message calls it.
    """
    with guarded(path, format):
        try:
            with safe_open(demand_regular(path), framework="pt") as file:
                words: dict[str, str] = dict(file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except SafetensorError as error:
            raise ValueError(str(error)) from error
        seal = words.pop(_SEAL, None)
        is_ours = seal is not None or _SIGN in words
        if is_ours and _seal(tensors, words) != seal:
            raise ValueError("it was changed after it was written")
        words.pop(_SIGN, None)
    return TensorFile(tensors=tensors, words=words, is_sealed=is_ours)


def load_sealed(path: Path) -> TensorFile:
    """Read what :func:`save_sealed` wrote; InvalidInput if a bit has changed."""
    read = load_tensors(path)
    with guarded(path, "tensors"):
        if not read.is_sealed:
            raise ValueError("it has no checksum")
    return read


def _as_utf8(text: str) -> str:
    """Names of files may hold bytes that are no text."""
    return text.encode("utf-8", errors="backslashreplace").decode()


def _bytes_of(tensor: torch.Tensor) -> memoryview:
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data


def _seal(tensors: Mapping[str, torch.Tensor], words: Mapping[str, str]) -> str:
    digest = hashlib.sha256(json.dumps(sorted(words.items())).encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        digest.update(json.dumps([name, str(tensor.dtype), list(tensor.shape)]).encode())
        digest.update(_bytes_of(tensor))
    return digest.hexdigest()
