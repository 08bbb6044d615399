"""Kernel problems of any size: in memory with a decomposition, or on disk with conjugate gradients."""

import tempfile
from collections.abc import Callable
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.core.environment import free_memory
from firstlight.core.progress import progress
from firstlight.core.shapes import Images
from firstlight.kernels.gram import BAND, gram
from firstlight.kernels.ridge import RidgePath, conjugate_gradients, solve_ridge
from firstlight.kernels.spec import Kernel

COPIES = 5  # matrices that a decomposition holds at its peak: the kernel, the vectors, and workspace


def fits(n: int, copies: float = COPIES) -> bool:
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
    if not fits(n, copies=1.5):
        with tempfile.TemporaryFile() as file:
            out = np.memmap(file, dtype=np.float64, mode="w+", shape=(n, n))
    inner = gram(x, kernel=kernel, metric=metric, dtype=dtype, out=out, n_jobs=n_jobs, show=show)
    top = float(torch.stack([inner[i : i + BAND].max() for i in range(0, n, BAND)]).max()) or 1.0
    for start in range(0, n, BAND):
        inner[start : start + BAND] /= top
    return inner, top


def ridge_solver(
    inner: Float[Tensor, "n n"], targets: Float[Tensor, "n k"], *, show: bool | None = None
) -> Callable[[float], Float[Tensor, "n k"]]:
    """Coefficients by ridge: one decomposition for all of them where it fits, conjugate gradients where not."""
    if not fits(len(inner)):
        return partial(conjugate_gradients, inner, targets)
    with progress("Decomposition", total=None, show=show):
        return RidgePath.of(inner, targets)


def ridge_solution(
    inner: Float[Tensor, "n n"], targets: Float[Tensor, "n k"], ridge: float
) -> Float[Tensor, "n k"]:
    """Coefficients for one ridge, by Cholesky where it fits."""
    return (solve_ridge if fits(len(inner), 3) else conjugate_gradients)(inner, targets, ridge)
