"""Functions and tasks as bytes with their large arrays apart, so that an array is sent to a cluster once."""

import hashlib
import io
import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import cloudpickle
import numpy as np
import torch

APART = (
    1 << 18
)  # bytes from which an array is sent on its own: below, the bookkeeping costs more than sending it again


@dataclass(frozen=True)
class FlatArray:
    """A tensor or an array as plain bytes, with what is needed to lay it out in memory as it was.

    Parameters
    ----------
    data : np.ndarray
        The bytes, in the order of memory.
    dtype : torch.dtype
        Type of the elements.
    shape : tuple of int
        Shape with the axes in the order of memory.
    axes : tuple of int
        Where each axis of the tensor stands in `shape`.
    is_numpy : bool
        Whether it was an array of NumPy.
    """

    data: np.ndarray
    dtype: torch.dtype
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    is_numpy: bool

    @classmethod
    def of(cls, tensor: torch.Tensor, *, is_numpy: bool) -> "FlatArray | None":
        """Flatten a tensor without copying it; None if it has gaps or overlaps."""
        strides = tensor.stride()
        order = sorted(range(tensor.ndim), key=lambda axis: (-strides[axis], axis))
        straight = tensor.permute(order)
        if not straight.is_contiguous():
            return None
        data = straight.reshape(-1).view(torch.uint8).numpy()
        return cls(data, tensor.dtype, tuple(straight.shape), tuple(np.argsort(order).tolist()), is_numpy)

    @property
    def name(self) -> str:
        """Name by content: equal for equal bytes, shapes, types and layouts."""
        words = f"{self.dtype} {self.shape} {self.axes} {self.is_numpy}"
        digest = hashlib.sha256(words.encode())
        digest.update(self.data.data)
        return digest.hexdigest()

    def restore(self) -> torch.Tensor | np.ndarray:
        """Return a copy of the array as it was, in memory of its own.

        The memory comes from torch, which aligns it as it aligns every tensor: products then take the same path
        through the linear algebra as at home and end in the same bits.
        """
        straight = torch.empty(self.shape, dtype=self.dtype)
        np.copyto(straight.reshape(-1).view(torch.uint8).numpy(), self.data)
        tensor = straight.permute(self.axes)
        return tensor.numpy() if self.is_numpy else tensor


@dataclass(frozen=True)
class Packed:
    """Anything that can be pickled, without its large arrays.

    Parameters
    ----------
    body : bytes
        The pickle.
    arrays : tuple of str
        Names of the arrays that belong in it.
    """

    body: bytes
    arrays: tuple[str, ...]

    @property
    def name(self) -> str:
        """Name by content."""
        return hashlib.sha256(self.body).hexdigest()

    def unpack(self, arrays: Mapping[str, FlatArray]) -> Any:
        """Put it together again; every array is a copy of its own."""
        return _Unpacker(io.BytesIO(self.body), arrays).load()


def pack(thing: object, arrays: dict[str, FlatArray]) -> Packed:
    """Pickle anything, closures included, and add its large arrays to `arrays`.

    Examples
    --------
    >>> arrays = {}
    >>> packed = pack({"images": torch.ones(512, 512), "seed": 3}, arrays)
    >>> len(packed.body) < 1000, [array.data.nbytes for array in arrays.values()]
    (True, [1048576])
    >>> packed.unpack(arrays)["images"].shape
    torch.Size([512, 512])
    """
    file = io.BytesIO()
    packer = _Packer(file, arrays)
    packer.dump(thing)
    return Packed(file.getvalue(), tuple(dict.fromkeys(packer.names)))


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, arrays: dict[str, FlatArray]) -> None:
        super().__init__(file)
        self._apart = arrays
        self._named: dict[int, tuple[object, str]] = {}  # the object is kept, so that its id stays taken
        self.names: list[str] = []

    def persistent_id(self, thing: object) -> str | None:
        """Name an array that is sent apart; None pickles the thing in place."""
        if id(thing) in self._named:
            return self._named[id(thing)][1]
        flat = _flat(thing)
        if flat is None:
            return None
        name = flat.name
        self._apart[name] = flat
        self._named[id(thing)] = (thing, name)
        self.names.append(name)
        return name


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, arrays: Mapping[str, FlatArray]) -> None:
        super().__init__(file)
        self._apart = arrays
        self._restored: dict[str, Any] = {}

    def persistent_load(self, name: str) -> Any:
        """Find an array that was sent apart; equal arrays of one parcel are one again."""
        if name not in self._restored:
            self._restored[name] = self._apart[name].restore()
        return self._restored[name]


def _flat(thing: object) -> FlatArray | None:
    # subclasses carry more than their numbers, and a gradient is more than numbers too
    if type(thing) is np.ndarray:
        plain = thing.dtype.kind in "fiub" and thing.dtype.isnative and thing.flags.writeable
        if plain and thing.nbytes >= APART and thing.flags.c_contiguous:
            try:
                return FlatArray.of(torch.from_numpy(thing), is_numpy=True)
            except TypeError:  # a type that torch does not know
                return None
        return None
    if type(thing) is torch.Tensor and not thing.requires_grad and thing.device.type == "cpu":
        strided = thing.layout == torch.strided and not thing.is_conj() and not thing.is_neg()
        if strided and thing.nbytes >= APART:
            return FlatArray.of(thing, is_numpy=False)
    return None
