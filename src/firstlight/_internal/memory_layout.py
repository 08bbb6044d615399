"""One memory layout for everything that is kept, so that reading it back repeats every bit.

A matrix product rounds differently when an operand is transposed, sliced out of a larger array, or starts at
an address that vector loads cannot take whole: BLAS chooses another routine, or peels another number of
leading entries. Files know neither strides nor addresses, so whatever may be stored gets the layout that a
fresh tensor has before it is first used.
"""

from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.devices import with_tensors

ALIGNMENT = 64
"""Bytes; one cache line, the widest vector there is, and what torch itself gives to a new tensor."""


def canonical(tensor: Tensor) -> Tensor:
    """The tensor itself if it lies in memory as a new one would, else a copy that does.

    Views of a larger array, transposed, expanded and channels-last tensors are copied, as are arrays that
    NumPy or a file placed at an odd address. Memory maps that start on a page are left where they are.

    Examples
    --------
    >>> matrix = torch.arange(6.0).reshape(2, 3)
    >>> canonical(matrix) is matrix, canonical(matrix.T).stride()
    (True, (2, 1))
    """
    if tensor.layout is not torch.strided or is_canonical(tensor):
        return tensor
    return tensor.clone(memory_format=torch.contiguous_format)


def is_canonical(tensor: Tensor) -> bool:
    """Whether strides and address are those of a new tensor of the same shape."""
    # `is_contiguous` ignores the strides of axes of length 1, but the choice of a BLAS routine does not
    return tensor.stride() == _row_major(tensor.shape) and tensor.data_ptr() % ALIGNMENT == 0


def with_channels_last(model: nn.Module, *, last: bool = True) -> nn.Module:
    """Lay out the filters of a model, in place, with the channels last, which convolutions on a CPU prefer; or back."""
    layout = torch.channels_last if last else torch.contiguous_format
    return model.to(memory_format=layout)  # type: ignore[call-overload, no-any-return]


def as_stored(value: Any) -> Any:
    """The value as it comes back from a file: every tensor on the CPU and :func:`canonical`.

    Containers in which nothing changes are returned themselves.
    """
    return with_tensors(value, lambda tensor: canonical(tensor.cpu()))


def _row_major(shape: torch.Size) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for length in reversed(shape):
        strides.insert(0, step)
        step *= max(length, 1)
    return tuple(strides)
