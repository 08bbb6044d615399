"""Filters that do nothing, or nothing new."""

from collections.abc import Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from firstlight._internal.result import Result


@dataclass(frozen=True, kw_only=True)
class FilterFaults(Result):
    """Filters of a layer that do nothing, or nothing new.

    Parameters
    ----------
    name : str
        Name of the layer.
    n_filters : int
        How many it has.
    dead : tuple of int
        Filters that respond to no image that was looked at, and filters that are zero.
    duplicates : tuple of tuple of int
        Sets of filters that point in one direction (cosine above the threshold).
    mirrored : int
        Number of pairs that point in opposite directions.
    threshold : float
        Cosine from which two filters count as the same.
    n_images : int
        Images behind `dead`.
    """

    name: str
    n_filters: int
    dead: tuple[int, ...]
    duplicates: tuple[tuple[int, ...], ...]
    mirrored: int
    threshold: float
    n_images: int = 0

    @property
    def n_superfluous(self) -> int:
        """Filters that repeat another one."""
        return sum(len(same) - 1 for same in self.duplicates)


def filter_faults(
    filters: Float[Tensor, "g k d"],
    active: Bool[Tensor, " filters"],
    *,
    n_images: int = 0,
    name: str = "",
    threshold: float = 0.99,
) -> FilterFaults:
    """Dead and duplicate filters.

    Parameters
    ----------
    filters : Tensor of shape (g, k, d)
        Rows of a layer, group by group.
    active : bool Tensor of shape (filters,)
        Which of them respond to an image, as :func:`filter_activity` tells; of all groups in a row.
    n_images : int, default 0
        Images behind `active`.
    name : str, default ''
        Name of the layer.
    threshold : float, default 0.99
        Cosine from which two filters of a group count as the same.

    Examples
    --------
    >>> rows = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]).double()
    >>> faults = filter_faults(rows, torch.ones(4).bool())
    >>> faults.dead, faults.duplicates
    ((3,), ((0, 1),))
    """
    g, k, _ = filters.shape
    norms = filters.norm(dim=2)
    zero = norms <= 1e-6 * norms.median()
    dead = zero.flatten() | ~active
    unit = filters / torch.where(zero, 1.0, norms)[..., None]
    cosines = torch.where((zero[:, :, None] | zero[:, None, :]), 0.0, unit @ unit.mT)
    mirrored = int((cosines < -threshold).sum()) // 2
    duplicates = [
        tuple(group * k + i for i in same)
        for group in range(g)
        for same in _connected((cosines[group] > threshold).fill_diagonal_(False))
    ]
    return FilterFaults(
        name=name,
        n_filters=g * k,
        dead=tuple(dead.nonzero().flatten().tolist()),
        duplicates=tuple(duplicates),
        mirrored=mirrored,
        threshold=threshold,
        n_images=n_images,
    )


def _connected(linked: Tensor) -> Iterator[tuple[int, ...]]:
    """Sets of two and more indices that links join."""
    left = set(linked.any(1).nonzero().flatten().tolist())
    while left:
        joined, frontier = set(), {left.pop()}
        while frontier:
            joined |= frontier
            frontier = {int(j) for i in frontier for j in linked[i].nonzero().flatten()} - joined
        left -= joined
        yield tuple(sorted(joined))
