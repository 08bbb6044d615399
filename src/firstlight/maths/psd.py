"""Square roots and inverses of symmetric positive semidefinite matrices."""

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput

_EPS = torch.finfo(torch.float64).eps


def psd_sqrt(matrix: Float[Tensor, "d d"], *, rtol: float | None = None) -> Float[Tensor, "d d"]:
    r"""Symmetric positive semidefinite square root, :math:`S = S^\top \succeq 0,\ S S = A`.

    Parameters
    ----------
    matrix : Tensor of shape (d, d)
        Symmetric; eigenvalues may be negative only by rounding, down to minus the cut-off.
    rtol : float, optional
        Cut-off relative to the largest eigenvalue; smaller ones count as zero. Default: d times the
        rounding unit of float64 if the matrix is float64, of float32 otherwise.

    Returns
    -------
    Tensor of shape (d, d)
        In the precision of `matrix`, computed in float64. Cost O(d³).

    Examples
    --------
    >>> psd_sqrt(torch.tensor([[4.0, 0.0], [0.0, 9.0]]))
    tensor([[2., 0.],
            [0., 3.]])
    """
    values, vectors = _spectrum(matrix, rtol)
    return ((vectors * values.sqrt()) @ vectors.T).to(matrix.dtype)


def psd_pinv(matrix: Float[Tensor, "d d"], *, rtol: float | None = None) -> Float[Tensor, "d d"]:
    r"""Pseudo-inverse :math:`A^{+}` of a positive semidefinite matrix.

    Parameters
    ----------
    matrix : Tensor of shape (d, d)
        Symmetric; eigenvalues may be negative only by rounding, down to minus the cut-off.
    rtol : float, optional
        Cut-off relative to the largest eigenvalue; directions below it map to zero. Default as in
        :func:`psd_sqrt`. Natural-image moments reach 1e-11 of the top, so the cut-off is part of any
        result that depends on the inverse: name it there.

    Examples
    --------
    >>> psd_pinv(torch.tensor([[4.0, 0.0], [0.0, 0.0]]))
    tensor([[0.2500, 0.0000],
            [0.0000, 0.0000]])
    """
    values, vectors = _spectrum(matrix, rtol)
    # 1 in the place of 0 before the division, so that 0 never becomes infinite
    inverse = (values > 0) / torch.where(values > 0, values, 1.0)
    return ((vectors * inverse) @ vectors.T).to(matrix.dtype)


def _spectrum(matrix: Tensor, rtol: float | None) -> tuple[Tensor, Tensor]:
    """Eigenvalues with those below the cut-off set to zero, and eigenvectors."""
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.numel() == 0:
        raise InvalidInput(f"`matrix` must be square; got the shape {tuple(matrix.shape)}.")
    if not matrix.isfinite().all():
        raise InvalidInput("`matrix` holds NaN or infinite entries; its root or inverse is not defined.")
    if rtol is None:
        rtol = len(matrix) * torch.finfo(matrix.dtype).eps
    if not 0 <= rtol < 1:
        raise InvalidInput(f"`rtol` must lie in [0, 1); got rtol={rtol}.")
    exact = matrix.double()
    size = float(exact.abs().max())
    lopsided = float((exact - exact.T).abs().max())
    if lopsided > max(rtol, 1e-5) * size:
        raise InvalidInput(f"`matrix` must be symmetric; entries differ from their mirror by {lopsided:.3g}.")
    # the mean with its transpose: eigh reads one triangle only
    values, vectors = torch.linalg.eigh((exact + exact.T) / 2)
    # d ε ‖A‖ bounds the rounding of an eigenvalue in float64, whatever `rtol` is
    cutoff = max(rtol, len(matrix) * _EPS) * float(values.abs().max())
    if values[0] < -cutoff:
        raise InvalidInput(
            f"`matrix` must have no negative eigenvalue; the smallest is {float(values[0]):.3g}, the largest "
            f"{float(values[-1]):.3g}. Raise `rtol` if that is rounding."
        )
    return torch.where(values > cutoff, values, 0.0), vectors
