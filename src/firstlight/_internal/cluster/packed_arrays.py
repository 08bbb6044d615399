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

APART = 1 << 18  # bytes of an array sent on its own: below, the bookkeeping costs more than sending it again


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

    def unpack(self, arrays: Mapping[str, np.ndarray]) -> Any:
        """Put it together again; every array is a copy of its own."""
        return _Unpacker(io.BytesIO(self.body), arrays).load()


def pack(thing: object, arrays: dict[str, np.ndarray]) -> Packed:
    """Pickle anything, closures included, and add the bytes of its large arrays to `arrays`, named by content.

    Examples
    --------
    >>> arrays = {}
    >>> packed = pack({"images": torch.ones(512, 512), "seed": 3}, arrays)
    >>> len(packed.body) < 1000, [array.nbytes for array in arrays.values()]
    (True, [1048576])
    >>> packed.unpack(arrays)["images"].shape
    torch.Size([512, 512])
    """
    packer = _Packer(file := io.BytesIO(), arrays)
    packer.dump(thing)
    return Packed(file.getvalue(), tuple({layout[0]: None for _, layout in packer.layouts.values()}))


class _Packer(cloudpickle.Pickler):  # type: ignore[misc]
    def __init__(self, file: io.BytesIO, arrays: dict[str, np.ndarray]) -> None:
        super().__init__(file)
        self._apart = arrays
        # by id of the array, which is kept so that its id stays taken
        self.layouts: dict[int, tuple[object, tuple[Any, ...]]] = {}

    def persistent_id(self, thing: object) -> tuple[Any, ...] | None:
        """Name and layout of an array that is sent apart; None pickles the thing in place."""
        if id(thing) not in self.layouts:
            tensor = _large_tensor(thing)
            if tensor is None:
                return None
            data = _bytes_of(tensor)
            name = hashlib.sha256(data.data).hexdigest()
            self._apart[name] = data
            layout = (tuple(tensor.shape), tensor.stride(), tensor.dtype, isinstance(thing, np.ndarray))
            self.layouts[id(thing)] = (thing, (name, *layout))
        return self.layouts[id(thing)][1]


class _Unpacker(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, arrays: Mapping[str, np.ndarray]) -> None:
        super().__init__(file)
        self._apart = arrays
        self._restored: dict[tuple[Any, ...], Any] = {}

    def persistent_load(self, layout: tuple[Any, ...]) -> Any:
        """Copy an array that was sent apart; equal arrays of one parcel are one again.

        The memory comes from torch, which aligns it as it aligns every tensor: products then take the same path
        through the linear algebra as at home and end in the same bits.
        """
        if layout not in self._restored:
            name, shape, strides, dtype, is_numpy = layout
            tensor = torch.empty_strided(shape, strides, dtype=dtype)
            np.copyto(_bytes_of(tensor), self._apart[name])
            self._restored[layout] = tensor.numpy() if is_numpy else tensor
        return self._restored[layout]


def _bytes_of(tensor: torch.Tensor) -> np.ndarray:
    """The bytes of a tensor in the order of memory, which it shares."""
    array: np.ndarray = tensor.as_strided((tensor.numel(),), (1,)).view(torch.uint8).numpy()
    return array


def _large_tensor(thing: object) -> torch.Tensor | None:
    """A large tensor or array that is nothing but its numbers, without gaps or overlaps; None for all others."""
    if type(thing) is np.ndarray and thing.nbytes >= APART and thing.flags.c_contiguous:
        if thing.dtype.kind not in "fiub" or not thing.dtype.isnative or not thing.flags.writeable:
            return None
        try:
            return torch.from_numpy(thing)
        except TypeError:  # a type that torch does not know
            return None
    # subclasses carry more than their numbers, and a gradient is more than numbers too
    if type(thing) is not torch.Tensor or thing.requires_grad or thing.device.type != "cpu":
        return None
    if thing.layout != torch.strided or thing.is_conj() or thing.is_neg() or thing.nbytes < APART:
        return None
    # torch keeps the strides in a new tensor only where there are no gaps or overlaps
    return thing if torch.empty_like(thing, device="meta").stride() == thing.stride() else None
