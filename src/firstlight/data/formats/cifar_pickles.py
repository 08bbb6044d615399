"""The pickled batches of CIFAR, read by an unpickler that can build nothing but byte arrays.

A pickle may name any function to be called while it is read. Here the few names that a NumPy array needs
stand for small classes of ours, and every other name is refused before anything is called; NumPy's
own reconstruction never sees the file.
"""

import io
import pickle
import pickletools
from pathlib import Path
from typing import Any

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import FAILURES, read_bytes, reason_of
from firstlight.data.cache import Splits, stored_images
from firstlight.data.entries import Reader
from firstlight.data.formats.folder import found_file


class _Dtype:
    def __init__(self, code: Any = None, *_: Any) -> None:
        self.code = code.decode("ascii", "replace") if isinstance(code, bytes) else str(code)

    def __setstate__(self, state: Any) -> None:
        pass


class _Array:
    """Takes the state a NumPy array pickles itself with, and keeps it only if it is plain bytes."""

    values: np.ndarray

    def __setstate__(self, state: Any) -> None:
        _, shape, dtype, fortran, raw = state
        if not isinstance(dtype, _Dtype) or dtype.code not in ("u1", "uint8"):
            raise pickle.UnpicklingError("an array is not of bytes")
        if not isinstance(raw, bytes):
            raise pickle.UnpicklingError("an array holds objects")
        self.values = np.frombuffer(raw, np.uint8).reshape(shape, order="F" if fortran else "C")


class _ArrayType:
    """Stands for the type `numpy.ndarray`, which is passed as an argument and never called."""


def _reconstruct(*_: Any) -> _Array:
    return _Array()


def _latin1(text: Any, codec: Any) -> bytes:
    # how Python 3 writes bytes at protocol 2
    if not isinstance(text, str) or codec not in ("latin1", b"latin1"):
        raise pickle.UnpicklingError("an unknown text codec")
    return text.encode("latin1")


_ADMITTED = {
    ("numpy.core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy._core.multiarray", "_reconstruct"): _reconstruct,
    ("numpy", "ndarray"): _ArrayType,
    ("numpy", "dtype"): _Dtype,
    ("_codecs", "encode"): _latin1,
}


class _PlainUnpickler(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        if (module, name) not in _ADMITTED:
            raise pickle.UnpicklingError(f"it asks for {module}.{name}, which no image batch needs")
        return _ADMITTED[module, name]


def _demand_modest(raw: bytes) -> None:
    """Refuse a pickle that numbers its parts beyond its own length.

    The table of parts is as long as the largest number, so that 14 bytes could ask for gigabytes.
    """
    for operation, argument, _ in pickletools.genops(raw):
        if "PUT" in operation.name and isinstance(argument, int) and argument > len(raw):
            raise pickle.UnpicklingError("it asks for more memory than it can need")


def pickled_batch(path: Path) -> dict[str, Any]:
    """Read one pickled dictionary of byte arrays, numbers, words and lists; anything else is refused."""
    raw = read_bytes(path)
    try:
        _demand_modest(raw)
        body = _PlainUnpickler(io.BytesIO(raw), encoding="bytes").load()
        if not isinstance(body, dict):
            raise pickle.UnpicklingError(f"it holds a {type(body).__name__}, not a dictionary")
    except (pickle.UnpicklingError, ImportError, *FAILURES) as error:
        raise InvalidInput(
            f"{path} is refused as a pickled image batch: {reason_of(error)}. No code in it was run; get a fresh copy."
        ) from error
    plain = {k.decode("latin1") if isinstance(k, bytes) else str(k): v for k, v in body.items()}
    return {k: v.values if isinstance(v, _Array) else v for k, v in plain.items()}


def cifar_reader(
    classes: tuple[str, ...], *, files: dict[str, tuple[str, ...]], labels: str, sign: str
) -> Reader:
    """Return a reader of a folder of CIFAR batches.

    Parameters
    ----------
    classes : tuple of str
        Names in label order.
    files : dict of str to tuple of str
        The batch files of each split.
    labels : str
        Key of the labels within a batch.
    sign : str
        A file that lies beside the batches and tells CIFAR-10 from CIFAR-100.
    """

    def read(folder: Path) -> Splits | None:
        beside = found_file(folder, sign)
        if beside is None:
            return None
        splits: Splits = {}
        for split, names in files.items():
            for name in names:
                if not (beside.parent / name).is_file():
                    raise InvalidInput(f"{beside.parent} must hold {', '.join(names)}; {name} is missing.")
            batches = [_batch(beside.parent / name, labels) for name in names]
            x = np.concatenate([x for x, _ in batches]).reshape(-1, 3, 32, 32)
            splits[split] = stored_images(x, np.concatenate([y for _, y in batches]), classes)
        return splits

    return read


def _batch(path: Path, labels: str) -> tuple[np.ndarray, np.ndarray]:
    body = pickled_batch(path)
    x, y = body.get("data"), body.get(labels)
    if not isinstance(x, np.ndarray) or x.ndim != 2 or x.shape[1] != 3072:
        raise InvalidInput(f"{path} must hold `data` of 3072 bytes an image; got {np.shape(x)}.")  # type: ignore[arg-type]
    if not isinstance(y, list) or len(y) != len(x) or not all(type(label) is int for label in y):
        raise InvalidInput(f"{path} must hold `{labels}`, a list of {len(x)} whole numbers.")
    return x, np.array(y, dtype=np.int64)
