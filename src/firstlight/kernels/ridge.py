"""Kernel ridge regression: by a decomposition, by Cholesky factors, and by conjugate gradients above the memory."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from jaxtyping import Float
from scipy.sparse.linalg import LinearOperator, cg
from torch import Tensor

from firstlight._internal.environment import free_memory
from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.shapes import Images
from firstlight.kernels.gram import BAND, kernel_gram
from firstlight.kernels.kernel import Kernel

BLOCK = 1024  # rows of a kernel on disk that are read at once
LARGE = 500  # images above which a factor in float64 costs more than one in float32 and a few steps
SHORT_TOLERANCE = 1e-12  # relative residual that refines a float32 factor to the digits of a float64 one
SHORT_STEPS = 15  # steps that cost as much as a factor


@dataclass(frozen=True)
class RidgePath:
    r"""Solutions of :math:`(K + \lambda I)\,\alpha = Y` for any number of λ after one decomposition.

    Eigenvalues below zero, which only rounding can bring about, count as zero.

    Examples
    --------
    >>> path = RidgePath.of(torch.eye(2, dtype=torch.float64), torch.tensor([[1.0], [3.0]]))
    >>> path(1.0).flatten()
    tensor([0.5000, 1.5000], dtype=torch.float64)
    """

    values: Float[Tensor, " n"]
    vectors: Float[Tensor, "n n"]
    targets: Float[Tensor, "n k"]

    @classmethod
    def of(cls, kernel: Float[Tensor, "n n"], targets: Float[Tensor, "n k"]) -> "RidgePath":
        """Decompose the kernel matrix, in float64. Cost O(n³), once."""
        values, vectors = torch.linalg.eigh(kernel.double())
        return cls(values.clamp(min=0.0), vectors, vectors.T @ targets.double())

    def __call__(self, ridge: float) -> Float[Tensor, "n k"]:
        """Coefficients for one ridge."""
        check_ridge(ridge)
        # (K + λI)⁻¹Y = V (Λ + λ)⁻¹ VᵀY
        return self.vectors @ (self.targets / (self.values + ridge)[:, None])


@dataclass(frozen=True)
class CholeskyPath:
    r"""Solutions of :math:`(K + \lambda I)\,\alpha = Y` by Cholesky factors.

    A factor takes n³/3 operations that run at the processor's full speed: measured at n = 4000 it is 18 times cheaper
    than the decomposition behind :class:`RidgePath`. Large matrices are factored in float32, at half the cost, and that
    factor is the preconditioner of conjugate gradients in float64: it serves every ridge that they reach within a few
    steps. Where they do not, the ridge has a factor of its own in float64. Where rounding left
    :math:`K + \lambda I` indefinite, the decomposition is made after all, once.

    Examples
    --------
    >>> path = CholeskyPath(torch.eye(2, dtype=torch.float64), torch.tensor([[1.0], [3.0]]))
    >>> path(1.0).flatten()
    tensor([0.5000, 1.5000], dtype=torch.float64)
    """

    kernel: Float[Tensor, "n n"]
    targets: Float[Tensor, "n k"]

    def __call__(self, ridge: float) -> Float[Tensor, "n k"]:
        """Coefficients for one ridge."""
        check_ridge(ridge)
        if len(self.kernel) >= LARGE:
            for factor in self._short_factors(ridge):
                try:
                    return self._refined(ridge, factor)
                except Diverged:
                    continue
        shifted = self.kernel.double()
        shifted = shifted.clone() if shifted is self.kernel else shifted
        shifted.diagonal().add_(ridge)
        factor, failed = torch.linalg.cholesky_ex(shifted)
        return self._spectrum(ridge) if failed else torch.cholesky_solve(self.targets.double(), factor)

    def _short_factors(self, ridge: float) -> Iterator[Tensor]:
        """Factors in float32: that of an earlier ridge, then that of this one, which later ridges find."""
        yield from self._kept
        shifted = self.kernel.to(torch.float32, copy=True)
        shifted.diagonal().add_(ridge)
        factor, failed = torch.linalg.cholesky_ex(shifted)
        self._kept[:] = [] if failed else [factor]
        yield from self._kept

    def _refined(self, ridge: float, factor: Tensor) -> Tensor:
        """Solve in float64, with a factor in float32 to take most of every step."""
        kernel = self.kernel.double()
        return _by_steps(
            lambda vectors: kernel @ vectors,
            lambda residual: torch.cholesky_solve(residual.float(), factor).double(),
            self.targets.double(), ridge, tolerance=SHORT_TOLERANCE, most=SHORT_STEPS,
        )  # fmt: skip

    @cached_property
    def _kept(self) -> list[Tensor]:
        return []

    @cached_property
    def _spectrum(self) -> RidgePath:
        return RidgePath.of(self.kernel, self.targets)


def ridge_residual(
    kernel: Float[Tensor, "n n"], targets: Float[Tensor, "n k"], ridge: float, solution: Float[Tensor, "n k"]
) -> float:
    r"""Relative residual :math:`\|(K + \lambda I)\,\alpha - Y\|_F / \|Y\|_F` of coefficients, in float64.

    The kernel may lie on disk: it is read once, in blocks of rows.

    Examples
    --------
    >>> ridge_residual(torch.eye(2), torch.ones(2, 1), 1.0, torch.full((2, 1), 0.5))
    0.0
    """
    wanted, alpha = targets.double(), solution.double()
    product = torch.cat([kernel[i : i + BLOCK].double() @ alpha for i in range(0, len(kernel), BLOCK)])
    return float((product + ridge * alpha - wanted).norm() / (wanted.norm() or 1.0))


def conjugate_gradients(
    kernel: Float[Tensor, "n n"],
    targets: Float[Tensor, "n k"],
    ridge: float,
    *,
    rank: int = 256,
    tolerance: float = 1e-8,
    most: int = 2000,
) -> Float[Tensor, "n k"]:
    r"""Coefficients for one ridge without a decomposition of the whole matrix, which may lie on disk.

    The preconditioner is the inverse of :math:`L L^\top + \lambda I` for the Nyström approximation L from
    `rank` evenly spaced columns.

    Parameters
    ----------
    kernel : Tensor of shape (n, n)
        Read in blocks of rows; ``torch.from_numpy`` of a memory map is fine.
    targets, ridge : Tensor of shape (n, k) or float
        As above; the ridge must be positive.
    rank : int, default 256
        Rank of the preconditioner.
    tolerance : float, default 1e-08
        Relative size of the residual of every column at which to stop.
    most : int, default 2000
        Iterations after which :class:`firstlight._internal.errors.Diverged` is raised.
    """

    def multiply(vectors: Tensor) -> Tensor:
        return torch.cat([kernel[i : i + BLOCK].double() @ vectors for i in range(0, len(kernel), BLOCK)])

    return solve_by_steps(
        multiply, lambda chosen: kernel[:, chosen].double(), targets, ridge,
        rank=rank, tolerance=tolerance, most=most,
    )  # fmt: skip


def solve_by_steps(
    multiply: Callable[[Tensor], Tensor],
    columns: Callable[[Tensor], Tensor],
    targets: Float[Tensor, "n k"],
    ridge: float,
    *,
    rank: int,
    tolerance: float,
    most: int,
    rounding: float = 1e-12,
    first: Float[Tensor, "n k"] | None = None,
    listen: Callable[[Tensor], None] = lambda coefficients: None,
) -> Float[Tensor, "n k"]:
    """Conjugate gradients for a matrix of which only products and columns are asked.

    Parameters
    ----------
    multiply, columns : callable
        The matrix times some columns, and its columns at some indices, in float64.
    targets, ridge, rank, tolerance, most
        As for :func:`conjugate_gradients`.
    rounding : float, default 1e-12
        Directions of the approximation below this share of the largest are made up by rounding.
    first : Tensor of shape (n, k), optional
        Coefficients to begin with; zeros by default.
    listen : callable, optional
        Called with the coefficients after every step.
    """
    check_ridge(ridge, positive=True)
    wanted = targets.double()
    try:
        return _by_steps(
            multiply, _nystrom_inverse(columns, len(wanted), ridge, rank, rounding), wanted, ridge,
            tolerance=tolerance, most=most, first=first, listen=listen,
        )  # fmt: skip
    except Diverged:
        raise Diverged(
            f"Conjugate gradients did not reach {tolerance:g} in {most} steps. Raise `ridge` (now {ridge:g}) or `rank`."
        ) from None


def _by_steps(
    multiply: Callable[[Tensor], Tensor],
    precondition: Callable[[Tensor], Tensor],
    wanted: Float[Tensor, "n k"],
    ridge: float,
    *,
    tolerance: float,
    most: int,
    first: Float[Tensor, "n k"] | None = None,
    listen: Callable[[Tensor], None] = lambda coefficients: None,
) -> Float[Tensor, "n k"]:
    """Preconditioned conjugate gradients; :class:`Diverged` where they do not reach the tolerance."""
    # All columns are one system with the kernel repeated along its diagonal: a kernel on disk is then read once per
    # iteration and not once per column. With columns of length one, the bound on the whole residual holds for each.
    sizes = wanted.norm(dim=0)
    sizes = torch.where(sizes > 0, sizes, torch.ones_like(sizes))
    flat = (wanted / sizes).numpy().ravel()

    def shaped(vector: np.ndarray) -> Tensor:
        return torch.from_numpy(vector).reshape(wanted.shape)

    def operator(act: Callable[[Tensor], Tensor]) -> LinearOperator:
        matvec = lambda vector: act(shaped(vector)).numpy().ravel()  # noqa: E731
        return LinearOperator((flat.size, flat.size), matvec=matvec, dtype=np.float64)

    solution, status = cg(
        operator(lambda vectors: multiply(vectors) + ridge * vectors),
        flat,
        x0=None if first is None else (first.double() / sizes).numpy().ravel(),
        rtol=0.0,
        atol=tolerance,
        maxiter=most,
        M=operator(precondition),
        callback=lambda vector: listen(shaped(vector.copy()) * sizes),
    )
    if status != 0 or not np.isfinite(solution).all():
        raise Diverged(f"Conjugate gradients did not reach {tolerance:g} in {most} steps.")
    return shaped(solution) * sizes


def _nystrom_inverse(
    columns: Callable[[Tensor], Tensor], n: int, ridge: float, rank: int, rounding: float
) -> Callable[[Tensor], Tensor]:
    """Apply the inverse of the Nyström approximation plus ridge, by Woodbury's identity."""
    chosen = torch.linspace(0, n - 1, min(rank, n), dtype=torch.float64).round().long()
    some = columns(chosen)
    values, vectors = torch.linalg.eigh(some[chosen])
    keep = values > values[-1] * rounding
    # K ≈ C A⁻¹ Cᵀ = L Lᵀ with L = C V Λ^{-½}, for A = V Λ Vᵀ the kernel of the chosen images
    scaled = some @ (vectors[:, keep] / values[keep].sqrt())
    inner = torch.linalg.cholesky(scaled.T @ scaled + ridge * torch.eye(scaled.shape[1], dtype=torch.float64))

    def precondition(residual: Tensor) -> Tensor:
        # (LLᵀ + λI)⁻¹ r = (r - L (LᵀL + λI)⁻¹ Lᵀ r) / λ
        projected: Tensor = scaled @ torch.cholesky_solve(scaled.T @ residual, inner)
        return (residual - projected) / ridge

    return precondition


def check_ridge(ridge: float, *, positive: bool = False) -> None:
    """Refuse a ridge that is negative or not a number."""
    if not 0 <= ridge < float("inf") or (positive and ridge == 0):
        least = "positive" if positive else "at least 0"
        raise InvalidInput(f"`ridge` must be finite and {least}; got ridge={ridge}.")


def fits_in_memory(n: int, copies: float) -> bool:
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
    if not fits_in_memory(n, 1.5):
        with tempfile.TemporaryFile() as file:
            out = np.memmap(file, dtype=np.float64, mode="w+", shape=(n, n))
    inner = kernel_gram(x, kernel=kernel, metric=metric, dtype=dtype, out=out, n_jobs=n_jobs, show=show)
    largest = float(torch.stack([inner[i : i + BAND].max() for i in range(0, n, BAND)]).max()) or 1.0
    for start in range(0, n, BAND):
        inner[start : start + BAND] /= largest
    return inner, largest


def ridge_solver(
    inner: Float[Tensor, "n n"], targets: Float[Tensor, "n k"]
) -> Callable[[float], Float[Tensor, "n k"]]:
    """Coefficients by ridge: a Cholesky factor for each, or above the memory conjugate gradients.

    :func:`firstlight.kernels.ridge_residual` tells how exact a solution is.

    Parameters
    ----------
    inner : Tensor of shape (n, n)
        Kernel matrix.
    targets : Tensor of shape (n, k)
        One column per output.
    """
    if fits_in_memory(len(inner), 3):
        return CholeskyPath(inner, targets)
    return partial(conjugate_gradients, inner, targets)
