"""Gram matrices of convolutional kernels, tile by tile, on threads or as blocks of tiles on a cluster."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import (
    cluster_cores,
    default_jobs,
    finished_tasks,
    report_fraction,
    single_thread,
)
from firstlight._internal.progress import progress
from firstlight._internal.shapes import Images
from firstlight.kernels.accelerator import tensor_values, uses_tensors
from firstlight.kernels.compiled.layers import LANES, flatten_values, pair_values, pixel_values
from firstlight.kernels.global_pooling import (
    average_pooled_values,
    exact_average_pooled_values,
    exact_pooled_values,
    pooled_values,
)
from firstlight.kernels.kernel import ConvKernel, Kernel, PatchKernel
from firstlight.kernels.prepared_images import (
    ROWS,
    FirstImages,
    KernelPlan,
    SecondImages,
    SinglePairs,
    Workspace,
)
from firstlight.kernels.rows import row_gram, takes_rows

BAND = 16 * LANES  # images whose patches are held while all others pass by
AGAIN = 8 * LANES  # pairs that are prepared together when done again
FEW_POSITIONS = 16  # below, float64 costs nothing and nothing averages the rounding of one small angle
FEW_PAIRS = 1 << 14  # below, sending images to a cluster costs more than computing
SIDES = (
    1024,
    512,
    256,
    128,
    64,
)  # of a block that a worker computes: whole tiles, so that bits are those of one machine
BLOCKS_PER_CORE = 4  # enough that no worker waits long for the last
CLOSE_SHARE = 0.1  # pairs with a larger weighted share of cosines close to 1 are done again in float64


Block = tuple[int, int]
"""First row and first column."""


def kernel_gram(
    x: Images,
    z: Float[Tensor, "m _c _h _w"] | None = None,
    *,
    kernel: Kernel,
    metric: Float[Tensor, "d d"] | None = None,
    dtype: torch.dtype = torch.float32,
    out: np.ndarray | None = None,
    engine: str = "auto",
    n_jobs: int | None = None,
    show: bool | None = None,
) -> Float[Tensor, "n m"]:
    r"""Kernel of every image of `x` with every image of `z`.

    Parameters
    ----------
    x, z : Tensor of shape (n, c, h, w) or Tensor of shape (m, _c, _h, _w)
        Images ``n c h w``; without `z` the matrix is symmetric and only one triangle is computed.
    kernel : Kernel
        Which kernel, see :class:`firstlight.kernels.ConvKernel` and :class:`firstlight.kernels.PatchKernel`.
    metric : Tensor of shape (d, d), optional
        M, positive semidefinite, on the patches of the first layer in the order (channel, row, column);
        the identity by default. Applied as :math:`M^{1/2}` to the patches.
    dtype : torch.dtype, default torch.float32
        torch.float32 (1e-6 relative; pairs that would lose digits, and images of few patches, are done in
        float64) or torch.float64.
    out : np.ndarray, optional
        Where to write, for instance ``numpy.memmap``, if the matrix exceeds the memory.
    engine : str, default 'auto'
        "compiled" loops for the CPU, "tensors" for accelerators; "auto" takes the second where
        ``firstlight.computing_on`` names one.
    n_jobs : int, optional
        Threads; default :func:`firstlight._internal.executor.default_jobs`. Inside
        :func:`firstlight._internal.executor.on_cluster` blocks of the matrix are computed there. The bits do not
        depend on either.
    show : bool, optional
        Force the progress bar on or off.

    Returns
    -------
    Tensor of shape (n, m)
        In float64 (or `out` as it is). Cost ``O(n m |S| (d + L))`` for flatten, times ``|S|`` when
        pooled; memory beyond the result: the patches of a few hundred images.

    Examples
    --------
    >>> images = torch.rand(3, 1, 5, 5, generator=torch.Generator().manual_seed(0))
    >>> kernel_gram(images, kernel=ConvKernel(depth=2)).shape
    torch.Size([3, 3])
    """
    if dtype not in (torch.float32, torch.float64):
        raise InvalidInput(f"`dtype` must be torch.float32 or torch.float64; got {dtype}.")
    plan = KernelPlan.of(kernel, x, metric)
    symmetric = z is None
    second = x if z is None else z
    if z is not None:
        plan.check(z, "z")
    shape = (len(x), len(second))
    if out is not None and out.shape != shape:
        raise InvalidInput(f"`out` must have the shape {shape}; got {out.shape}.")
    # memory from torch, which is aligned: products with the matrix do not depend on where it happens to lie
    target = torch.empty(shape, dtype=torch.float64).numpy() if out is None else out
    on_tensors = uses_tensors(engine, kernel)
    if takes_rows(plan) and not on_tensors:
        # seconds where a cluster would take longer to receive the rows
        row_gram(plan, x, z, dtype, target, n_jobs, show)
        return torch.from_numpy(target)
    cores = cluster_cores()
    if cores is not None and not on_tensors and shape[0] * shape[1] >= FEW_PAIRS:
        compute = partial(part_values, x=x, z=z, kernel=kernel, metric=metric, dtype=dtype)
        _fill_from_cluster(target, compute, cores, symmetric=symmetric, show=show)
        return torch.from_numpy(target)
    dtype = torch.float64 if plan.positions < FEW_POSITIONS else dtype
    tile = _tile_values(plan, on_tensors)
    jobs = _Jobs(plan, x, second, symmetric, dtype, min(BAND, len(second)) if on_tensors else LANES)
    done = 0
    with (
        single_thread(),
        progress("Kernel", total=jobs.total, unit="pairs", show=show) as bar,
        ThreadPoolExecutor(1 if on_tensors else n_jobs or default_jobs()) as pool,
    ):
        for band in jobs.bands():
            for pairs in jobs.fill(band, target, tile, pool):
                done += pairs
                bar.update(completed=min(done, jobs.total))
                report_fraction(min(done / jobs.total, 1.0))
    if symmetric:
        _mirror(target)
    return torch.from_numpy(target)


def _fill_from_cluster(
    target: np.ndarray, compute: Callable[..., np.ndarray], cores: int, *, symmetric: bool, show: bool | None
) -> None:
    """Write the blocks that the workers of a cluster compute; the largest side that keeps all of them busy."""
    blocks = {side: list(blocks_of(target.shape, side, symmetric=symmetric)) for side in SIDES}
    side = next((side for side in SIDES if len(blocks[side]) >= BLOCKS_PER_CORE * cores), SIDES[-1])
    for index, values in finished_tasks(partial(compute, part=side), blocks[side], label="Kernel", show=show):
        i, j = blocks[side][index]
        target[i : i + side, j : j + side] = values
        if symmetric:
            target[j : j + side, i : i + side] = values.T


def blocks_of(shape: tuple[int, ...], part: int, *, symmetric: bool) -> Iterator[Block]:
    """First row and first column of every part; of a symmetric matrix, those on and above the diagonal."""
    for i in range(0, shape[0], part):
        yield from ((i, j) for j in range(i if symmetric else 0, shape[1], part))


def part_values(
    block: Block,
    x: Tensor,
    z: Tensor | None,
    kernel: Kernel,
    metric: Tensor | None,
    dtype: torch.dtype,
    part: int,
) -> np.ndarray:
    """Values of one part, on one thread. Parts of whole tiles have the bits of the whole matrix."""
    i, j = block
    first = x[i : i + part]
    second = None if z is None and i == j else (x if z is None else z)[j : j + part]
    matrix: np.ndarray = kernel_gram(
        first, second, kernel=kernel, metric=metric, dtype=dtype, n_jobs=1, show=False
    ).numpy()
    return matrix


@dataclass(frozen=True)
class _Jobs:
    """Which tiles there are."""

    plan: KernelPlan
    x: Tensor
    z: Tensor
    symmetric: bool
    dtype: torch.dtype
    width: int  # images on the second side of a tile

    @property
    def total(self) -> int:
        n, m = len(self.x), len(self.z)
        return n * (n + self.width) // 2 if self.symmetric else n * m

    @property
    def knows_diagonal(self) -> bool:
        """Whether K(x, x) has a closed form, from the norms alone."""
        kernel = self.plan.kernel
        return isinstance(kernel, ConvKernel) and kernel.readout == "flatten"

    def bands(self) -> Iterator[range]:
        for start in range(0, len(self.z), BAND):
            yield range(start, min(start + BAND, len(self.z)), self.width)

    def fill(self, band: range, target: np.ndarray, tile: "Tile", pool: ThreadPoolExecutor) -> Iterator[int]:
        """Write all tiles of a band of columns; yields the number of pairs as rows are done."""
        plan = self.plan
        columns = [SecondImages.of(plan, self.z[j : j + self.width], self.dtype, self.width) for j in band]

        def work(i: int) -> np.ndarray:
            rows, again = self.rows(i, band, columns), [np.empty((0, 2), int)]
            for j, lane in zip(band, columns, strict=True):
                if not (self.symmetric and j + self.width <= i):
                    values, doubtful = tile(rows, lane, self.symmetric and i == j)
                    target[i : i + ROWS, j : j + lane.n] = values[:, : lane.n]
                    again.append(np.argwhere(doubtful[:, : lane.n]) + np.array([i, j]))
            return np.concatenate(again)

        doubtful = []
        for again in pool.map(work, self.rows_of(band)):
            doubtful.append(again)
            yield ROWS * len(band) * self.width
        # after the band, so that pairs of all its tiles share their images
        self.repeat(np.concatenate(doubtful), target, pool)
        if self.symmetric and self.knows_diagonal:
            for j, lane in zip(band, columns, strict=True):
                own = np.arange(j, j + lane.n)
                target[own, own] = lane.own_values(plan)

    def rows(self, i: int, band: range, columns: list[SecondImages]) -> FirstImages:
        """Images `i` to `i + ROWS` as rows; those that are columns of the same band are not prepared again."""
        if self.symmetric and self.width == ROWS and i in band:
            return FirstImages.like(columns[band.index(i)])
        return FirstImages.of(self.plan, self.x[i : i + ROWS], self.dtype)

    def repeat(self, pairs: np.ndarray, target: np.ndarray, pool: ThreadPoolExecutor) -> None:
        """Do single pairs again in float64; the upper triangle is enough if symmetric."""
        if self.symmetric:
            least = 1 if self.knows_diagonal else 0  # columns right of the diagonal
            pairs = pairs[pairs[:, 1] - pairs[:, 0] >= least]
        pairs = pairs[np.lexsort(pairs.T)]

        def work(start: int) -> None:
            some = pairs[start : start + AGAIN]
            i, j = some.T
            target[i, j] = _exact_values(SinglePairs.of(self.plan, self.x, self.z, some))

        list(pool.map(work, range(0, len(pairs), AGAIN)))

    def rows_of(self, band: range) -> range:
        stop = min(band[-1] + self.width, len(self.x)) if self.symmetric else len(self.x)
        return range(0, stop, ROWS)


Tile = Callable[[FirstImages, SecondImages, bool], tuple[np.ndarray, np.ndarray]]


def _tile_values(plan: KernelPlan, on_tensors: bool) -> Tile:
    """Values of a tile, and which of them float32 could not tell; only the upper triangle where that is asked for."""
    kernel = plan.kernel
    if isinstance(kernel, PatchKernel):
        return lambda rows, columns, _upper: _certain(patch_values(plan, rows, columns)[0].mean(0).numpy())
    if kernel.readout == "gap" and not on_tensors:
        pooled = average_pooled_values if kernel.pooling else pooled_values
        return lambda rows, columns, upper: _doubted(*pooled(plan, rows, columns, upper), rows.patches.dtype)
    values = tensor_values if on_tensors else partial(_flatten_values, Workspace())
    return lambda rows, columns, _upper: _doubted(*values(plan, rows, columns), rows.patches.dtype)


def _doubted(values: np.ndarray, close: np.ndarray, dtype: torch.dtype) -> tuple[np.ndarray, np.ndarray]:
    return values, close > (CLOSE_SHARE if dtype == torch.float32 else np.inf)


def _certain(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return values, np.zeros(values.shape, dtype=bool)


def _flatten_values(
    space: Workspace, plan: KernelPlan, rows: FirstImages, columns: SecondImages
) -> tuple[np.ndarray, np.ndarray]:
    kernel = plan.kernel
    assert isinstance(kernel, ConvKernel)
    dtype = rows.patches.dtype
    shape = (len(rows.norms), LANES)
    states = space("states", (2, plan.positions, 2 * LANES), dtype).numpy()
    line = space("line", (2 * LANES * int(plan.sizes.max()),), dtype).numpy()
    out, close = np.empty(shape), np.empty(shape, line.dtype)
    rest = (
        (states[0], states[1], line),
        rows.norms.numpy(),
        columns.norms.numpy(),
        plan.layers(dtype),
        out,
        close,
    )
    if plan.shares_pixels:
        pixel_values(rows.pixels, columns.pixels, *rest)
    else:
        products = space("products", (plan.positions, *shape), dtype)
        torch.bmm(rows.patches, columns.patches, out=products)
        flatten_values(products.numpy(), *rest)
    return out / plan.last, close / rows.norms.shape[1]


def _exact_values(pairs: SinglePairs) -> np.ndarray:
    """Values of single pairs of images in float64."""
    plan, kernel = pairs.plan, pairs.plan.kernel
    assert isinstance(kernel, ConvKernel)
    if kernel.readout == "gap":
        return exact_average_pooled_values(pairs) if kernel.pooling else exact_pooled_values(pairs)
    n = len(pairs.i)
    out = np.empty(n + LANES)
    for start in range(0, n, LANES):
        products, norms = pairs.sides(slice(start, start + LANES))
        pair_values(products, norms, plan.layers(torch.float64), out[start : start + LANES])
    return out[:n] / plan.last


def patch_values(plan: KernelPlan, rows: FirstImages, columns: SecondImages) -> tuple[Tensor, Tensor]:
    """Values per position of a kernel on patches, and distances; always in float64."""
    kernel = plan.kernel
    assert isinstance(kernel, PatchKernel)
    products = torch.bmm(rows.patches.double(), columns.patches.double())
    norms = rows.squares[:, :, None] + columns.squares[:, None, :]
    # ‖x[p] - z[p]‖² from inner products loses digits where patches are close, hence float64
    squares = norms - 2 * products
    squares = torch.where(squares > 1e-14 * norms, squares, 0.0)  # identical patches, not rounding
    if kernel.profile == "gaussian":
        return torch.exp(squares / (-2 * kernel.bandwidth**2)), squares
    distances = squares.sqrt()
    return torch.exp(distances / -kernel.bandwidth), distances


def _mirror(matrix: np.ndarray) -> None:
    """Copy the upper triangle to the lower one, block by block."""
    n = len(matrix)
    for i in range(0, n, BAND):
        matrix[i + BAND :, i : i + BAND] = matrix[i : i + BAND, i + BAND :].T
        corner = np.triu(matrix[i : i + BAND, i : i + BAND])
        matrix[i : i + BAND, i : i + BAND] = corner + np.triu(corner, 1).T
