"""How far the layers of a network have moved from their initial weights."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.measures.linearized.tangent_kernel_summary import effective_rank


@dataclass(frozen=True, kw_only=True)
class LayerChange(Result):
    r"""How far a layer is from its initial weights.

    Parameters
    ----------
    name : str
        Name of the layer.
    distance : float
        :math:`\|W - W_0\| / \|W_0\|`.
    growth : float
        :math:`\|W\| / \|W_0\|`.
    cosine : float
        Cosine of the two weights; 0 for unrelated ones.
    effective_rank, initial_rank : float
        Exponential of the entropy of the squared singular values.
    """

    name: str
    distance: float
    growth: float
    cosine: float
    effective_rank: float
    initial_rank: float

    @property
    def unrelated(self) -> float:
        """Distance that unrelated weights of this size would have."""
        return float((1 + self.growth**2) ** 0.5)


def layer_changes(
    layers: Mapping[str, Float[Tensor, "g k d"]], initial: Mapping[str, Float[Tensor, "g k d"]]
) -> tuple[LayerChange, ...]:
    """How far every layer is from its initial weights; both by name, with equal shapes."""
    return tuple(_change(name, weight, initial[name]) for name, weight in layers.items())


def _change(name: str, weight: Tensor, initial: Tensor) -> LayerChange:
    size, initial_size = float(weight.norm()), float(initial.norm())
    if initial_size == 0:
        raise InvalidInput(
            f"layer {name!r} must not start from zero: distances are relative to the initial weights."
        )
    inner = float((weight * initial).sum())
    return LayerChange(
        name=name,
        distance=float((weight - initial).norm()) / initial_size,
        growth=size / initial_size,
        # ‖W - W0‖² = ‖W‖² + ‖W0‖² - 2⟨W, W0⟩: unrelated weights of growth g lie at √(1 + g²)
        cosine=inner / (size * initial_size) if size else 0.0,
        effective_rank=_effective_rank(weight),
        initial_rank=_effective_rank(initial),
    )


def _effective_rank(filters: Tensor) -> float:
    # the smaller of the two Gram matrices has the same non-zero eigenvalues
    gram = filters @ filters.mT if filters.shape[1] <= filters.shape[2] else filters.mT @ filters
    return effective_rank(torch.linalg.eigvalsh(gram).clamp(min=0).flatten())
