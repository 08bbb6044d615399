"""Average gradient outer product of a kernel predictor, by the closed-form way back."""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import (
    cluster_cores,
    default_jobs,
    map_tasks,
    report_fraction,
    single_thread,
)
from firstlight._internal.progress import progress
from firstlight._internal.shapes import Images
from firstlight.kernels.accelerator import (
    flatten_tensor_gradients,
    pooled_tensor_gradients,
    tensor_close_shares,
    uses_tensors,
)
from firstlight.kernels.compiled.layers import LANES, flatten_gradients, pair_gradients
from firstlight.kernels.compiled.patches import add_gradients
from firstlight.kernels.global_pooling import exact_pooled_gradients, pooled_gradients
from firstlight.kernels.gram import CLOSE_SHARE, patch_values
from firstlight.kernels.kernel import ConvKernel, Kernel, PatchKernel, check_gradients
from firstlight.kernels.prepared_images import ROWS, FirstImages, KernelPlan, SecondImages, SinglePairs
from firstlight.kernels.rows import row_agop, takes_rows

MEMORY = 64 << 20  # bytes of gradients that are held at a time, per thread
GROUP = 128  # centres of one matrix product: with 32 the product runs at half the speed
CHUNK = 16  # positions whose left sides of the matrix product are built at a time: they stay in the cache

FEW_TERMS = 512  # pairs times positions below which float64 costs nothing


def kernel_agop(
    centres: Images,
    alpha: Float[Tensor, "rows k"],
    points: Float[Tensor, "m _c _h _w"] | None = None,
    *,
    kernel: Kernel,
    metric: Float[Tensor, "d d"] | None = None,
    dtype: torch.dtype = torch.float32,
    engine: str = "auto",
    n_jobs: int | None = None,
    show: bool | None = None,
) -> Float[Tensor, "d d"]:
    r"""Average gradient outer product over patches of :math:`f_o(x) = \sum_i \alpha_{io} K_M(x_i, x)`.

    .. math:: \frac1m \sum_{x} \sum_{p} \sum_o \nabla_{x[p]} f_o \, \nabla_{x[p]} f_o^\top

    The derivative of one value by the inner products of patches does not depend on the output, and no
    pair of images touches another: one way back per pair serves all outputs through one matrix product
    per position, and nothing of the size of all pairs and positions is ever kept.

    Parameters
    ----------
    centres, alpha : Tensor of shape (n, c, h, w) or Tensor of shape (rows, k)
        Images of the predictor and their coefficients, one column per output.
    points : Tensor of shape (m, _c, _h, _w), optional
        Where gradients are taken; the centres by default.
    kernel, metric, dtype, engine, n_jobs, show
        As for :func:`firstlight.kernels.kernel_gram`.

    Returns
    -------
    Tensor of shape (d, d)
        In float64. Where a patch is zero, its gradient is zero; where two patches are identical, the
        terms of infinite slope, which cancel, are left out; nearly identical images are done in float64.
        Cost ``O(n m |S| k d)``, memory independent of n and m beyond the images.
    """
    check_gradients(kernel)
    plan = KernelPlan.of(kernel, centres, metric)
    points = centres if points is None else points
    plan.check(points, "points")
    if alpha.ndim != 2 or len(alpha) != len(centres) or not alpha.isfinite().all():
        raise InvalidInput(
            f"`alpha` must hold one finite row for each of the {len(centres)} centres; "
            f"got the shape {tuple(alpha.shape)}."
        )
    on_tensors = uses_tensors(engine, kernel) or _reaches_out(kernel)
    if len(centres) * len(points) * plan.positions < FEW_TERMS:
        dtype = torch.float64  # with so few terms nothing averages the rounding of one small angle
    if takes_rows(plan) and not on_tensors:
        total = row_agop(plan, centres, alpha, points, dtype, n_jobs, show)
        return _averaged(total, plan, len(points))
    if isinstance(kernel, PatchKernel):
        dtype = torch.float64  # differences of close patches are all that matters here
    task = _Task(plan, centres, points, alpha, dtype, on_tensors)
    total = torch.zeros(plan.dimension, plan.dimension, dtype=torch.float64)
    starts = range(0, len(points), task.width)
    if cluster_cores() is not None and not uses_tensors(engine, kernel):
        for part in map_tasks(task.outer_products, starts, label="Gradients", show=show):
            total += part
    else:
        with (
            single_thread(),
            progress("Gradients", total=len(points), unit="images", show=show) as bar,
            ThreadPoolExecutor(1 if on_tensors else min(n_jobs or default_jobs(), len(starts))) as pool,
        ):
            for done, part in enumerate(pool.map(task.outer_products, starts), 1):
                total += part
                bar.update(completed=min(done * task.width, len(points)))
                report_fraction(done / len(starts))
    return _averaged(total, plan, len(points))


def _averaged(total: Tensor, plan: KernelPlan, n_points: int) -> Tensor:
    # gradients are by y[p] = M^½ x[p]; ∇_x = M^½ ∇_y, so the outer products are multiplied from both sides
    if plan.root is not None:
        total = plan.root @ total @ plan.root
    # patches hold the root of the kernel's factor: two gradients bring the whole factor back
    return (total + total.T) * (0.5 * plan.kernel.patch_scale(plan.shape[0]) / n_points)


@dataclass(frozen=True)
class _Task:
    """All that the threads share."""

    plan: KernelPlan
    centres: Tensor
    points: Tensor
    alpha: Tensor
    dtype: torch.dtype
    on_tensors: bool

    @property
    def width(self) -> int:
        """Number of points whose gradients are held at a time."""
        image_bytes = self.plan.positions * self.alpha.shape[1] * self.plan.dimension * self.dtype.itemsize
        return max(1, MEMORY // (image_bytes * LANES)) * LANES

    @property
    def group(self) -> int:
        """Number of centres that contribute at a time."""
        return ROWS if self.on_tensors or isinstance(self.plan.kernel, PatchKernel) else GROUP

    def outer_products(self, start: int) -> Float[Tensor, "d d"]:
        """Sum of gradient outer products of one band of points."""
        plan, n_outputs = self.plan, self.alpha.shape[1]
        stop = min(start + self.width, len(self.points))
        bands = []
        for j in range(start, stop, LANES):
            points = self.points[j : min(j + LANES, stop)]
            columns = SecondImages.of(plan, points, self.dtype)
            bands.append(_Gradients(plan, columns, points, n_outputs, self.on_tensors))
        for i in range(0, len(self.centres), self.group):
            images = self.centres[i : i + self.group]
            rows = FirstImages.of(plan, images, self.dtype)
            self.add(bands, rows, images, self.alpha[i : i + self.group].to(self.dtype))
        return torch.stack([band.outer_products() for band in bands]).sum(0)

    def add(self, bands: list["_Gradients"], rows: FirstImages, images: Tensor, alpha: Tensor) -> None:
        """Let some centres contribute to all bands."""
        kernel = self.plan.kernel
        if isinstance(kernel, ConvKernel) and kernel.readout == "gap":
            for band in bands:
                band.add_pooled(rows, images, alpha)
            return
        # D_ij(p) = ∂K_ij/∂s_ij(p), one way back per pair, for all outputs
        slopes = [band.slopes(rows, images, alpha) for band in bands]
        weights = alpha.T.contiguous()
        for start in range(0, self.plan.positions, CHUNK):
            part = slice(start, start + CHUNK)
            # α_io x_i[p] for all outputs, then one product with D_ij(p) per position: Σ_i α_io D_ij(p) x_i[p]
            weighted = (rows.patches.mT[part, None] * weights[:, None]).flatten(1, 2)
            for band, (by_product, _) in zip(bands, slopes, strict=True):
                band.inner[part].baddbmm_(weighted, by_product[part])
        # through ‖z[p]‖²: Σ_i α_io ∂K_ij/∂n_j(p), to be multiplied by 2 z_j[p] at the end
        for band, (_, by_norm) in zip(bands, slopes, strict=True):
            band.norm.baddbmm_(weights.expand(self.plan.positions, *weights.shape), by_norm)


class _Gradients:
    """Gradients of all outputs at up to `LANES` points, while the centres pass by."""

    def __init__(
        self, plan: KernelPlan, columns: SecondImages, points: Tensor, n_outputs: int, on_tensors: bool
    ) -> None:
        self.plan, self.columns, self.points, self.n_outputs = plan, columns, points, n_outputs
        self.on_tensors = on_tensors
        dtype = columns.patches.dtype
        self.inner = torch.zeros(plan.positions, n_outputs * plan.dimension, LANES, dtype=dtype)
        self.norm = torch.zeros(plan.positions, n_outputs, LANES, dtype=dtype)

    def add_pooled(self, rows: FirstImages, images: Tensor, alpha: Tensor) -> None:
        """Let some centres contribute to the gradients of a pooled kernel."""
        plan, columns = self.plan, self.columns
        doubt = CLOSE_SHARE if rows.patches.dtype == torch.float32 else np.inf
        if self.on_tensors:
            doubtful = tensor_close_shares(plan, rows, columns) > doubt
            doubtful[:, columns.n :] = False
            self.inner += pooled_tensor_gradients(plan, rows, columns, alpha, ~doubtful)
            if doubtful.any():
                self._add_tile_exactly(images, alpha, doubtful)
            return
        gradients, again = pooled_gradients(plan, rows, columns, alpha, doubt=doubt)
        self.inner += gradients
        for start in range(0, len(again), LANES):
            i, j = again[start : start + LANES].T
            exact = exact_pooled_gradients(
                SinglePairs.of(plan, images, self.points, again[start : start + LANES])
            )
            more = torch.einsum("pdn,nk->pkdn", exact, alpha[i].double()).flatten(1, 2)
            self.inner.index_add_(2, torch.from_numpy(j), more.to(self.inner.dtype))

    def _add_tile_exactly(self, images: Tensor, alpha: Tensor, pairs: np.ndarray) -> None:
        """Contributions of those pairs of a tile, row x column, that float32 cannot tell, in float64."""
        some, others = np.flatnonzero(pairs.any(1)), np.flatnonzero(pairs.any(0))
        i, j = torch.from_numpy(some), torch.from_numpy(others)
        rows = FirstImages.of(self.plan, images[i], torch.float64)
        columns = SecondImages.of(self.plan, self.points[j], torch.float64, len(j))
        more = pooled_tensor_gradients(
            self.plan, rows, columns, alpha[i].double(), pairs[np.ix_(some, others)]
        )
        self.inner.index_add_(2, j, more.to(self.inner.dtype))

    def slopes(self, rows: FirstImages, images: Tensor, alpha: Tensor) -> tuple[Tensor, Tensor]:
        """Derivatives by inner products and by squared norms of the points, position x centre x point."""
        plan, kernel = self.plan, self.plan.kernel
        if isinstance(kernel, PatchKernel):
            return self._patch_kernel_gradients(kernel, rows)
        slopes = flatten_tensor_gradients if self.on_tensors else _compiled_gradients
        products, norms, close = slopes(plan, rows, self.columns)
        if rows.patches.dtype == torch.float32:
            again = np.argwhere(close[:, : self.columns.n] > CLOSE_SHARE)
            products[:, again[:, 0], again[:, 1]] = 0.0
            norms[:, again[:, 0], again[:, 1]] = 0.0
            for start in range(0, len(again), LANES):
                self._add_exactly(images, alpha, again[start : start + LANES])
        return products, norms

    def _patch_kernel_gradients(self, kernel: PatchKernel, rows: FirstImages) -> tuple[Tensor, Tensor]:
        values, distances = patch_values(self.plan, rows, self.columns)
        # r² = n_x + n_z - 2s: ∂K/∂s = -2 K'(r²) and ∂K/∂n_z = K'(r²)
        if kernel.profile == "gaussian":
            slopes = values / (kernel.bandwidth**2 * self.plan.positions)
        else:
            apart = distances > 0
            # ∂e^{-r/γ}/∂s = e^{-r/γ} / (γ r): infinite for equal patches, whose terms cancel and are left out
            slopes = values / torch.where(apart, distances, 1.0) * apart
            slopes = slopes / (kernel.bandwidth * self.plan.positions)
        return slopes, -0.5 * slopes

    def _add_exactly(self, images: Tensor, alpha: Tensor, pairs: np.ndarray) -> None:
        """Contributions of single pairs of nearly identical images, in float64."""
        plan, kernel = self.plan, self.plan.kernel
        assert isinstance(kernel, ConvKernel)
        i, j = pairs.T
        exact = SinglePairs.of(plan, images, self.points, pairs)
        products, sides = exact.sides(slice(len(pairs)))
        norms = np.empty_like(products)
        pair_gradients(products, norms, sides, plan.layers(torch.float64), 1 / plan.last)
        add_gradients(
            products, norms, exact.first.numpy(), exact.second.numpy(), exact.i, exact.j,
            alpha[i].double().numpy(), j, self.inner.numpy(),
        )  # fmt: skip

    def outer_products(self) -> Float[Tensor, "d d"]:
        """Add the part that runs through the points' norms, and sum over points, positions and outputs."""
        n, d = self.columns.n, self.plan.dimension
        total = torch.zeros(d, d, dtype=torch.float64)
        for start in range(0, self.plan.positions, CHUNK):
            part = slice(start, start + CHUNK)
            inner = self.inner[part].view(-1, self.n_outputs, d, LANES)
            own = self.columns.patches[part, None]
            gradients = torch.addcmul(inner, self.norm[part, :, None], own, value=2)[..., :n]
            # float32 would leave negative eigenvalues
            flat = gradients.permute(2, 0, 1, 3).to(torch.float64, memory_format=torch.contiguous_format)
            total += flat.flatten(1) @ flat.flatten(1).T
        return total


def _compiled_gradients(
    plan: KernelPlan, rows: FirstImages, columns: SecondImages
) -> tuple[Tensor, Tensor, np.ndarray]:
    """Derivatives of flatten kernels as :func:`firstlight.kernels.accelerator.flatten_tensor_gradients` gives them."""
    kernel = plan.kernel
    assert isinstance(kernel, ConvKernel)
    products = torch.bmm(rows.patches, columns.patches)
    norms = torch.empty_like(products)
    close = np.empty(products.shape[1:], products.numpy().dtype)
    flatten_gradients(
        products.numpy(),
        norms.numpy(),
        rows.norms.numpy(),
        columns.norms.numpy(),
        plan.layers(rows.patches.dtype),
        close.dtype.type(1 / plan.last),
        close,
    )
    return products, norms, close / rows.norms.shape[1]


def _reaches_out(kernel: Kernel) -> bool:
    """Whether norms reach beyond the overlap of two displaced images, where the compiled loops do not look."""
    if not isinstance(kernel, ConvKernel):
        return False
    return kernel.readout == "gap" and kernel.padding > 0 and kernel.depth > 1
