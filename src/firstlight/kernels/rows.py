"""Laplace and Gaussian kernels on plain rows, one position an image: distances and gradients as matrix products."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.executor import default_jobs, report_fraction, single_torch_thread
from firstlight._internal.progress import progress
from firstlight.kernels.kernel import PatchKernel
from firstlight.kernels.prepared_images import KernelPlan

Outcome = TypeVar("Outcome")

BLOCK = 512  # rows of one matrix product: large enough for its full speed, small enough for the cache
CLOSE = {torch.float32: 1e-3, torch.float64: 1e-6}
"""Squared distances below this share of the squared norms have lost digits and are taken from differences."""
MANY = 1 / 200  # share of close pairs above which a product in float64 is cheaper than their differences
_ZERO = 1e-24  # squared distances below this share of the squared norms are rounding of identical rows


def takes_rows(plan: KernelPlan) -> bool:
    """Whether an image is one patch, so that a kernel on patches is a kernel on rows."""
    return isinstance(plan.kernel, PatchKernel) and plan.positions == 1


@dataclass(frozen=True)
class Rows:
    """Rows in the coordinates in which M is the identity, moved by one shift that all rows share."""

    exact: Float[Tensor, "n d"]
    dtype: torch.dtype

    def __len__(self) -> int:
        return len(self.exact)

    def __getitem__(self, part: slice) -> "Rows":
        return replace(self, exact=self.exact[part])

    @classmethod
    def pair(cls, plan: KernelPlan, x: Tensor, z: Tensor | None, dtype: torch.dtype) -> tuple["Rows", "Rows"]:
        """Rows of both sides; without `z` they are the same."""
        second = plan.patches(x if z is None else z, torch.float64)[0].T
        # distances do not feel a shift, and rows around zero lose fewer digits in |x|² + |z|² - 2 x·z
        shift = second.mean(0)
        columns = cls((second - shift).contiguous(), dtype)
        if z is None:
            return columns, columns
        return cls((plan.patches(x, torch.float64)[0].T - shift).contiguous(), dtype), columns

    @property
    def values(self) -> Float[Tensor, "n d"]:
        """The rows in the precision of the products."""
        return self.exact.to(self.dtype)


Pairs = tuple[Tensor, Tensor]
"""Indices of rows and of columns."""


def squared_distances(rows: Rows, columns: Rows) -> tuple[Float[Tensor, "n m"], Pairs]:
    """Squared distances by one product, and the close pairs, whose distances come from differences in float64.

    Where many pairs are close, all distances are in float64.
    """
    a, b = rows.values, columns.values
    norms_a, norms_b = a.square().sum(1), b.square().sum(1)
    # |a - b|² = |a|² + |b|² - 2 a·b
    squares = torch.addmm(norms_b.expand(len(a), -1), a, b.T, alpha=-2).add_(norms_a[:, None])
    close = squares < CLOSE[rows.dtype] * (norms_a[:, None] + norms_b)
    count = int(close.sum())
    if count > MANY * close.numel() and rows.dtype == torch.float32:
        return squared_distances(replace(rows, dtype=torch.float64), replace(columns, dtype=torch.float64))
    i, j = close.nonzero().T if count else torch.empty(2, 0, dtype=torch.long)
    for start in range(0, count, BLOCK):
        first, second = i[start : start + BLOCK], j[start : start + BLOCK]
        left, right = rows.exact[first], columns.exact[second]
        exact = (left - right).square().sum(1)
        least = _ZERO * (left.square().sum(1) + right.square().sum(1))
        squares[first, second] = torch.where(exact > least, exact, 0.0).to(squares.dtype)
    return squares, (i, j)


def profile_(squares: Tensor, kernel: PatchKernel) -> Tensor:
    """Values of the kernel, in the place of squared distances."""
    if kernel.profile == "gaussian":
        return squares.mul_(-0.5 / kernel.bandwidth**2).exp_()
    return squares.sqrt_().mul_(-1 / kernel.bandwidth).exp_()


def slopes_(squares: Tensor, kernel: PatchKernel) -> Tensor:
    """-2 ∂K/∂r², in the place of squared distances."""
    if kernel.profile == "gaussian":
        return profile_(squares, kernel).div_(kernel.bandwidth**2)
    # e^{-r/γ} / (γ r): infinite for equal rows, whose terms cancel and are left out
    inverse = torch.where(squares > 0, squares.rsqrt(), 0.0)
    return profile_(squares, kernel).mul_(inverse).div_(kernel.bandwidth)


def row_gram(
    plan: KernelPlan, x: Tensor, z: Tensor | None, dtype: torch.dtype, target: np.ndarray, n_jobs: int | None,
    show: bool | None,
) -> None:  # fmt: skip
    """Write the kernel of every row of `x` with every row of `z` (or of `x`)."""
    rows, columns = Rows.pair(plan, x, z, dtype)
    kernel = plan.kernel
    assert isinstance(kernel, PatchKernel)

    def work(start: int) -> None:
        stop = min(start + BLOCK, len(rows))
        # of a symmetric matrix the columns from the diagonal on; the mirror writes the others
        first = start if z is None else 0
        squares, _ = squared_distances(rows[start:stop], columns[first:])
        if z is None:
            squares[:, : stop - start].fill_diagonal_(0.0)
        values = profile_(squares, kernel).numpy()
        target[start:stop, first:] = values
        if z is None:
            target[stop:, start:stop] = values[:, stop - start :].T
            corner = np.triu(values[:, : stop - start])
            target[start:stop, start:stop] = corner + np.triu(corner, 1).T

    for _ in _blocks(work, len(rows), "Kernel", n_jobs, show):
        pass


def row_agop(
    plan: KernelPlan, centres: Tensor, alpha: Tensor, points: Tensor, dtype: torch.dtype, n_jobs: int | None,
    show: bool | None,
) -> Float[Tensor, "d d"]:  # fmt: skip
    """Sum over points and outputs of gradient outer products, in the coordinates in which M is the identity."""
    rows, columns = Rows.pair(plan, points, centres, dtype)
    kernel = plan.kernel
    assert isinstance(kernel, PatchKernel)

    def work(start: int) -> Tensor:
        part = rows[start : start + BLOCK]
        squares, (i, j) = squared_distances(part, columns)
        slopes, y, own = (
            slopes_(squares, kernel),
            columns.exact.to(squares.dtype),
            part.exact.to(squares.dtype),
        )
        weights = alpha.to(slopes.dtype)
        # S (y_i - y_j) of a close pair would be the difference of two large numbers: it is added on its own
        steep = slopes[i, j].double()
        slopes[i, j] = 0.0
        sums = slopes @ weights
        total = torch.zeros(y.shape[1], y.shape[1], dtype=torch.float64)
        for output in range(weights.shape[1]):
            # ∇f_o(y_j) = Σ_i α_io S_ji (y_i - y_j), with S = -2 ∂K/∂r²
            gradients = torch.mm(slopes, weights[:, output, None] * y)
            exact = gradients.addcmul_(sums[:, output, None], own, value=-1).double()
            for start in range(0, len(i), BLOCK):
                some = slice(start, start + BLOCK)
                share = (steep[some] * alpha[j[some], output].double())[:, None]
                exact.index_add_(0, i[some], share * (columns.exact[j[some]] - part.exact[i[some]]))
            total.addmm_(exact.T, exact)  # in float64: float32 would leave negative eigenvalues
        return total

    return torch.stack(list(_blocks(work, len(rows), "Gradients", n_jobs, show))).sum(0)


def _blocks(
    work: Callable[[int], Outcome], n: int, label: str, n_jobs: int | None, show: bool | None
) -> Iterator[Outcome]:
    """Outcomes of all blocks of rows, in order; each block on one thread."""
    starts = range(0, n, BLOCK)
    with (
        single_torch_thread(),
        progress(label, total=n, unit="rows", show=show) as bar,
        ThreadPoolExecutor(min(n_jobs or default_jobs(), len(starts))) as pool,
    ):
        for done, outcome in enumerate(pool.map(work, starts), 1):
            bar.update(completed=min(done * BLOCK, n))
            report_fraction(done / len(starts))
            yield outcome
