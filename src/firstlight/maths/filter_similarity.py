r"""Similarity of matrices of the form :math:`W^\top Q W` without ever forming them.

Everything is done in the basis of the left singular vectors of W, where only r x r matrices occur,
r = min(k, d). Groups lie on the first axis: their blocks together count as one matrix.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from


class Undefined(InvalidInput):
    """A matrix without variation, which correlates with nothing."""


class Similarity(NamedTuple):
    """Two ways to compare matrices entry by entry, one value per compared pair."""

    pearson: Float[Tensor, " m"]
    cosine: Float[Tensor, " m"]


@dataclass(frozen=True, eq=False)
class FiltersInSingularBasis:
    r"""Filters W in the basis of their singular vectors :math:`W = U S V^\top`.

    Parameters
    ----------
    filters : Tensor of shape (g, k, d)
        Rows W, group by group.
    left : Tensor of shape (g, k, r)
        U, with zero columns where a singular value vanishes.
    right : Tensor of shape (g, d, r)
        :math:`V S`, so that :math:`W^\top Q W = (VS)\,\tilde Q\,(VS)^\top`, with :math:`\tilde Q = U^\top
        Q U`.
    squares : Tensor of shape (g, r)
        Squared singular values.
    """

    filters: Float[Tensor, "g k d"]
    left: Float[Tensor, "g k r"]
    right: Float[Tensor, "g d r"]
    squares: Float[Tensor, "g r"]

    @classmethod
    def of(cls, filters: Float[Tensor, "g k d"]) -> "FiltersInSingularBasis":
        """Diagonalise the smaller of the two Gram matrices, in float64. Cost O(g min(k, d)² max(k, d))."""
        w = filters.double()
        if w.shape[1] <= w.shape[2]:
            # WWᵀ = U S² Uᵀ, and V S = WᵀU
            squares, left = torch.linalg.eigh(w @ w.mT)
            squares, nonzero = _cut(squares)
            left = left * nonzero[:, None, :]
            right = w.mT @ left
        else:
            # WᵀW = V S² Vᵀ, and U = W V / S where S > 0
            squares, basis = torch.linalg.eigh(w.mT @ w)
            squares, nonzero = _cut(squares)
            roots = squares.sqrt()
            right = basis * roots[:, None, :]
            left = (w @ basis) / torch.where(nonzero, roots, 1.0)[:, None, :] * nonzero[:, None, :]
        return cls(w, left, right, squares)

    def inner(self, q: Float[Tensor, "g k k"]) -> Float[Tensor, "g r r"]:
        r""":math:`\tilde Q = U^\top Q U`."""
        return self.left.mT @ q @ self.left

    def similarity(
        self, inner: Float[Tensor, "m g r r"], other: "FiltersInSingularBasis | None" = None
    ) -> Similarity:
        r"""Compare each :math:`W^\top Q W` with the feature matrix of `other`, by default of W itself.

        Parameters
        ----------
        inner : Tensor of shape (m, g, r, r)
            Matrices from :meth:`inner`.
        other : FiltersInSingularBasis, optional
            Filters over the same patches, :math:`B`; compared is :math:`B^\top B`.
        """
        against = self if other is None else other
        if against.filters.shape[::2] != self.filters.shape[::2]:
            raise InvalidInput(
                f"filters must see the same patches; got {tuple(self.filters.shape)} and "
                f"{tuple(against.filters.shape)} (groups, filters, patch)."
            )
        # ⟨WᵀQW, BᵀB⟩ = tr(Q̃ PᵀP) with P = B V S
        projected = against.filters @ self.right
        product = torch.einsum("mgab,gka,gkb->m", inner, projected, projected)
        # ‖WᵀQW‖² = ‖S Q̃ S‖², since V has orthonormal columns
        size = torch.einsum("mgab,ga,gb->m", inner.square(), self.squares, self.squares)
        # Pearson needs the sum of all entries, 1ᵀ WᵀQW 1 = rᵀ Q̃ r with r = (V S)ᵀ1: no d x d matrix is formed for it
        row = self.right.sum(1)
        total = torch.einsum("mgab,ga,gb->m", inner, row, row)
        other_total = against.filters.sum(2).square().sum()
        other_size = against.squares.square().sum()
        # blocks off the diagonal of groups are no entries: they would be zeros that correlate by themselves
        count = self.filters.shape[0] * self.filters.shape[2] ** 2
        return Similarity(
            pearson=_ratio(
                product - total * other_total / count,
                (size - total.square() / count) * (other_size - other_total.square() / count),
            ),
            cosine=_ratio(product, size * other_size),
        )


def feature_similarity(a: FiltersInSingularBasis, b: FiltersInSingularBasis) -> Similarity:
    r"""Compare the feature matrices :math:`A^\top A` and :math:`B^\top B` of two layers of one shape."""
    r = a.left.shape[2]
    identity = (a.squares > 0).double()[..., None] * torch.eye(r, dtype=torch.float64)
    return a.similarity(identity[None], b)


def rotated(
    q: Float[Tensor, "g k k"], left: Float[Tensor, "g k r"], *, draws: int, seed: int
) -> Float[Tensor, "m g r r"]:
    r""":math:`U^\top O Q O^\top U` for random orthogonal O: the same spectrum in random directions.

    :math:`O^\top U` is a random orthonormal frame whatever U is, so frames of r columns are drawn, not
    k x k matrices; in the eigenbasis of Q one product is left per draw. With several groups their
    matrices change places at random too: a group of one filter has no other rotation.
    """
    values, _ = torch.linalg.eigh(q)
    roots = values.clamp(min=0).sqrt()
    g, k, r = left.shape
    nonzero = (left.square().sum(1) > 0.5).double()
    rotations = []
    for draw in range(draws):
        frames = _frames(g, k, r, seed, draw)
        order = torch.randperm(g, generator=generator_from("places", seed, draw))
        half = roots[order][..., None] * frames * nonzero[:, None, :]
        rotations.append(half.mT @ half)
    return torch.stack(rotations)


@lru_cache(maxsize=24)  # layers of equal shape share their draws
def _frames(g: int, k: int, r: int, seed: int, draw: int) -> Float[Tensor, "g k r"]:
    generator = generator_from("rotation", seed, draw, g, k, r)
    gaussian = torch.randn(g, k, r, generator=generator, dtype=torch.float64)
    q, triangle = torch.linalg.qr(gaussian)
    frames: Tensor = q * triangle.diagonal(dim1=1, dim2=2).sign()[:, None, :]  # uniform only with signs fixed
    return frames


def _cut(squares: Tensor) -> tuple[Tensor, Tensor]:
    """Squared singular values without those that are rounding only."""
    nonzero = squares > squares.shape[1] * torch.finfo(torch.float64).eps * squares.amax()
    return torch.where(nonzero, squares, 0.0), nonzero


def _ratio(product: Tensor, squared: Tensor) -> Tensor:
    if (squared <= 0).any():
        raise Undefined("a matrix without variation has no correlation: its filters or gradients vanish")
    return product / squared.sqrt()
