"""Square roots of symmetric positive semidefinite matrices."""

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput


def psd_sqrt(matrix: Float[Tensor, "d d"]) -> Float[Tensor, "d d"]:
    r"""Symmetric positive semidefinite square root, :math:`S = S^\top \succeq 0,\ S S = A`.

    Parameters
    ----------
    matrix : Tensor of shape (d, d)
        Symmetric; eigenvalues may be negative only by rounding, down to minus d times the rounding
        unit of its precision times the largest; those up to it count as zero.

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
    if matrix.ndim != 2 or matrix.shape[0] != matrix.shape[1] or matrix.numel() == 0:
        raise InvalidInput(f"`matrix` must be square; got the shape {tuple(matrix.shape)}.")
    if not matrix.isfinite().all():
        raise InvalidInput("`matrix` holds NaN or infinite entries; its root is not defined.")
    exact = matrix.double()
    lopsided = float((exact - exact.T).abs().max())
    if lopsided > 1e-5 * float(exact.abs().max()):
        raise InvalidInput(f"`matrix` must be symmetric; entries differ from their mirror by {lopsided:.3g}.")
    # the mean with its transpose: eigh reads one triangle only
    values, vectors = torch.linalg.eigh((exact + exact.T) / 2)
    # d ε ‖A‖ bounds the rounding of an eigenvalue of a matrix in the precision that came
    cutoff = len(matrix) * torch.finfo(matrix.dtype).eps * float(values.abs().max())
    if values[0] < -cutoff:
        raise InvalidInput(
            f"`matrix` must have no negative eigenvalue; the smallest is {float(values[0]):.3g}, the largest "
            f"{float(values[-1]):.3g}."
        )
    roots = torch.where(values > cutoff, values, 0.0).sqrt()
    root: Tensor = ((vectors * roots) @ vectors.T).to(matrix.dtype)
    return root
