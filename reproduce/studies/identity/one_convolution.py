"""What one layer learns from a few images when asked to be the identity."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.maths.patches import PatchGeometry, extract_patches


def span_projector(rows: Float[Tensor, "n d"]) -> Float[Tensor, "d d"]:
    """Projector on the span of the rows; singular values that are rounding count as zero."""
    basis = _row_basis(rows.double())
    return basis @ basis.mT


def identity_layer(examples: Float[Tensor, "n d"], *, initial: Float[Tensor, "d d"]) -> Float[Tensor, "d d"]:
    r"""A fully connected layer trained to copy its examples, as the matrix of :math:`x \mapsto x W`.

    .. math:: f(x) = \Pi x + W^0 (I - \Pi) x

    The part of an input that lies in the span of the examples is copied, the rest meets the initial
    weights: noise for a random start.

    References
    ----------
    .. [1] IdentityCrisis, theorem 1; several examples by their projector.
    """
    inside = span_projector(examples)
    eye = torch.eye(len(inside), dtype=torch.float64)
    return inside + (eye - inside) @ initial.double()


@dataclass(frozen=True, kw_only=True)
class PatchSystem(Result):
    """The regression that a one-layer convolution solves on one image.

    Parameters
    ----------
    patches : Tensor of shape (p, d)
        One zero-padded patch per pixel, the rows of X.
    targets : Tensor of shape (p, c)
        The pixel in the middle of each patch, for every channel: the rows of Y.
    selection : Tensor of shape (d, c)
        Picks the middle pixel of each channel out of a patch; ``patches @ selection`` is `targets`.
    size : int
        Side of the kernel.
    rank : int
        Rank of `patches`.
    """

    patches: Float[Tensor, "p d"]
    targets: Float[Tensor, "p c"]
    selection: Float[Tensor, "d c"]
    size: int
    rank: int

    @property
    def nullity(self) -> int:
        """Directions of patch space that the image says nothing about."""
        return self.patches.shape[1] - self.rank

    @property
    def is_identity(self) -> bool:
        """Whether training ends at the identity exactly, whatever the start."""
        return self.nullity == 0

    @property
    def unseen(self) -> Float[Tensor, "d d"]:
        """Projector on the directions that no patch of the image has."""
        return torch.eye(self.patches.shape[1], dtype=torch.float64) - span_projector(self.patches)


def patch_system(image: Float[Tensor, "c h w"], *, size: int) -> PatchSystem:
    """Set up the regression for a `size` x `size` convolution with same padding and stride 1."""
    if size < 1 or size % 2 == 0:
        raise InvalidInput(f"`size` must be odd, so that a patch has a middle; got size={size}.")
    c = image.shape[0]
    geometry = PatchGeometry.square(size, padding=size // 2)
    patches = extract_patches(image[None].double(), geometry)[0]
    selection = torch.zeros(c, size * size, c, dtype=torch.float64)
    selection[torch.arange(c), size * size // 2, torch.arange(c)] = 1
    singular = torch.linalg.svdvals(patches)
    rank = int((singular > _tolerance(patches) * singular[0]).sum()) if singular[0] > 0 else 0
    return PatchSystem(
        patches=patches,
        targets=image.double().flatten(1).mT,
        selection=selection.flatten(0, 1),
        size=size,
        rank=rank,
    )


def pixel_errors(
    system: PatchSystem, patches: Float[Tensor, "n d"], *, initial: Float[Tensor, "c d"]
) -> Float[Tensor, " n"]:
    r"""Squared error of the trained one-layer CNN at each patch of a test image, exactly.

    .. math:: \|(W^0 - \Lambda)^\top (I - \Pi) P_p\|^2

    References
    ----------
    .. [1] IdentityCrisis, theorem 2, corrected by E-64.
    """
    gap = initial.double().mT - system.selection
    return (patches.double() @ system.unseen @ gap).square().sum(1)


def error_bound(
    system: PatchSystem, *, sigma: float, largest_pixel: float, delta: float, m0: float = 2.0
) -> float:
    r"""Bound on the mean squared error that holds with probability 1 - delta over Gaussian starts.

    .. math::
        \frac1C \Big[\big(\sqrt{\nu\sigma^2(2\log(\nu/\delta) + C(1+\log m_0))} + \sqrt{\nu C}\big)
        \,\beta\sqrt{D}\Big]^2

    Correct but loose by three to five orders of magnitude (E-68): use :func:`pixel_errors`.

    Parameters
    ----------
    system : PatchSystem
        Patches of the training image.
    sigma : float
        Standard deviation of the initial kernel entries.
    largest_pixel : float
        Beta, the bound on all pixels of test images.
    delta : float
        Probability of failure; at least ``nu * exp(-C (m0 - 1 - log m0) / 2)`` (E-75).
    m0 : float, default 2.0
        A constant above 1, fixed in advance.
    """
    d, c = system.selection.shape
    nu = system.nullity
    if nu == 0:
        return 0.0
    if not m0 > 1:
        raise InvalidInput(f"`m0` must exceed 1; got m0={m0}.")
    least = min(1.0, nu * math.exp(-c * (m0 - 1 - math.log(m0)) / 2))
    if not least <= delta <= 1:
        raise InvalidInput(f"`delta` must lie in {least:.3g} .. 1 for m0={m0:g}; got delta={delta:g}.")
    start = math.sqrt(nu * sigma**2 * (2 * math.log(nu / delta) + c * (1 + math.log(m0))))
    return (start + math.sqrt(nu * c)) ** 2 * largest_pixel**2 * d / c


def _row_basis(rows: Float[Tensor, "n d"]) -> Float[Tensor, "d r"]:
    if not rows.isfinite().all():
        raise InvalidInput("`rows` holds NaN or infinite values. Remove or repair those examples first.")
    _, singular, right = torch.linalg.svd(rows, full_matrices=False)
    if singular[0] == 0:
        return rows.new_zeros(rows.shape[1], 0)
    kept: Tensor = right[singular > _tolerance(rows) * singular[0]]
    return kept.mT


def _tolerance(rows: Tensor) -> float:
    return max(rows.shape) * torch.finfo(torch.float64).eps
