"""Kernel problems of any size: in memory with a decomposition, or on disk with conjugate gradients."""

import tempfile
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.environment import free_memory
from firstlight._internal.progress import progress
from firstlight._internal.shapes import Images
from firstlight.kernels.gram import BAND, kernel_gram
from firstlight.kernels.kernel import Kernel
from firstlight.kernels.ridge import CholeskyPath, RidgePath, conjugate_gradients, solve_ridge

# A decomposition costs as much as about so many Cholesky factors, at 100 images as at 1600.
MANY_RIDGES = 12
COPIES = 5  # matrices that a decomposition holds at its peak: the kernel, the vectors, and workspace


def fits_in_memory(n: int, copies: float = COPIES) -> bool:
    """Whether so many float64 matrices of n x n go into the memory that is free."""
    return copies * 8 * n * n < 0.9 * free_memory()


def scaled_gram(
    x: Images,
    *,
    kernel: Kernel,
    metric: Float[Tensor, "d d"] | None = None,
    dtype: torch.dtype = torch.float32,
    n_jobs: int | None = None,
    show: bool | None = None,
) -> tuple[Float[Tensor, "n n"], float]:
    """Kernel matrix divided by its largest entry, and that entry (1 for a kernel of zeros).

    Above the memory the matrix is a file that vanishes with it.
    """
    n = len(x)
    out = None
    if not fits_in_memory(n, copies=1.5):
        with tempfile.TemporaryFile() as file:
            out = np.memmap(file, dtype=np.float64, mode="w+", shape=(n, n))
    inner = kernel_gram(x, kernel=kernel, metric=metric, dtype=dtype, out=out, n_jobs=n_jobs, show=show)
    top = float(torch.stack([inner[i : i + BAND].max() for i in range(0, n, BAND)]).max()) or 1.0
    for start in range(0, n, BAND):
        inner[start : start + BAND] /= top
    return inner, top


def ridge_solver(
    inner: Float[Tensor, "n n"],
    targets: Float[Tensor, "n k"],
    *,
    n_ridges: int = 3,
    show: bool | None = None,
) -> Callable[[float], Float[Tensor, "n k"]]:
    """Coefficients by ridge, by the cheapest way that the memory allows.

    Every ridge has a Cholesky factor of its own; for a dozen ridges or more, one decomposition serves all of them;
    above the memory, conjugate gradients.
    :func:`firstlight.kernels.ridge_residual` tells how exact a solution is.

    Parameters
    ----------
    inner : Tensor of shape (n, n)
        Kernel matrix.
    targets : Tensor of shape (n, k)
        One column per output.
    n_ridges : int, default 3
        For how many ridges the answer will be used.
    show : bool, optional
        Force the progress bar on or off.
    """
    n = len(inner)
    if n_ridges >= MANY_RIDGES and fits_in_memory(n):
        with progress("Decomposition", total=None, show=show):
            return RidgePath.of(inner, targets)
    return (
        CholeskyPath(inner, targets) if fits_in_memory(n, 3) else partial(conjugate_gradients, inner, targets)
    )


def ridge_solution(
    inner: Float[Tensor, "n n"], targets: Float[Tensor, "n k"], ridge: float
) -> Float[Tensor, "n k"]:
    """Coefficients for one ridge, by Cholesky where it fits."""
    return (solve_ridge if fits_in_memory(len(inner), 3) else conjugate_gradients)(inner, targets, ridge)
