"""The layers of a convolutional kernel as plain tensor operations, for accelerators.

On a CPU the compiled loops, which know no other device, are several times faster; inside
``firstlight.computing_on("cuda")``, :func:`firstlight.kernels.kernel_gram` and
:func:`firstlight.kernels.kernel_agop` come here. Same formulas, same treatment of zero and identical patches.
"""

import math
from collections.abc import Iterator

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.devices import chosen_device, knows_float64
from firstlight._internal.errors import unknown_name
from firstlight.kernels.compiled.dual_activations import (
    HEAVY64,
    NEAR64,
    NEARER64,
    SAME32,
    SAME64,
    close_cosine_stride,
)
from firstlight.kernels.kernel import ConvKernel, Kernel
from firstlight.kernels.prepared_images import FirstImages, KernelPlan, SecondImages

ENGINES = ("auto", "compiled", "tensors")
_SAME = {torch.float32: float(SAME32), torch.float64: SAME64}

Maps = list[Tensor]


def accelerator() -> torch.device | None:
    """Return the device of ``firstlight.computing_on``, unless that is the CPU or has no float64."""
    device = chosen_device()
    return device if device is not None and device.type != "cpu" and knows_float64(device) else None


def uses_tensors(engine: str, kernel: Kernel) -> bool:
    """Whether tensor operations compute a kernel; those on patches are nothing else in any case."""
    if engine not in ENGINES:
        raise unknown_name("engine", engine, ENGINES)
    if not isinstance(kernel, ConvKernel) or kernel.pooling:
        return False  # pooling between layers has compiled loops only
    return engine == "tensors" or (engine == "auto" and accelerator() is not None)


@torch.no_grad()
def tensor_values(
    plan: KernelPlan, rows: FirstImages, columns: SecondImages
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a tile, and the weighted share of cosines close to 1, row x column."""
    sides = _Sides(plan, rows, columns)
    total = torch.zeros(sides.pairs, dtype=torch.float64, device=sides.device)
    near = _CloseCosines(plan, total)
    for shift in sides.shifts():
        first, second = sides.maps(shift)
        value, close = _forward_layers(sides.kernel, sides.products(shift), first, second)
        total = total + value
        near.add(shift, close)
    return (total / sides.divisor).cpu().numpy(), near.shares()


@torch.enable_grad()
def flatten_tensor_gradients(
    plan: KernelPlan, rows: FirstImages, columns: SecondImages
) -> tuple[Tensor, Tensor, np.ndarray]:
    """Derivatives of flatten kernels by inner products and by squared norms of the columns' patches.

    Both are position x row x column; the third is the share of close cosines as in :func:`tensor_values`.
    """
    sides = _Sides(plan, rows, columns)
    products, square = sides.products((0, 0)), sides.own_squares()
    # ∂K/∂s and ∂K/∂n with s = ⟨x[p], z[p]⟩, n = ‖z[p]‖², of all pairs by one backward pass: no pair touches another
    first, _ = sides.maps((0, 0))
    value, near = _forward_layers(sides.kernel, products, first, sides.layers(square))
    by_product, by_norm = torch.autograd.grad(value.sum() / sides.divisor, (products, square))
    return _by_position(by_product), _by_position(by_norm), near.cpu().numpy() / len(rows.squares)


@torch.no_grad()
def tensor_close_shares(plan: KernelPlan, rows: FirstImages, columns: SecondImages) -> np.ndarray:
    """The weighted share of cosines close to 1 as in :func:`tensor_values`, at every few displacements."""
    sides = _Sides(plan, rows, columns)
    near = _CloseCosines(plan, torch.zeros(sides.pairs, dtype=torch.float64, device=sides.device))
    step = close_cosine_stride(*sides.sizes[-1])
    for shift in sides.shifts():
        if shift[0] % step == 0 and shift[1] % step == 0:
            first, second = sides.maps(shift)
            # few displacements are enough to find images alike: those of a surface are alike at all of them
            near.add(shift, _forward_layers(sides.kernel, sides.products(shift), first, second)[1])
    return near.shares()


@torch.enable_grad()
def pooled_tensor_gradients(
    plan: KernelPlan,
    rows: FirstImages,
    columns: SecondImages,
    alpha: Float[Tensor, "rows k"],
    taken: np.ndarray,
) -> Float[Tensor, "p kd columns"]:
    """Gradients of pooled kernels by the columns' patches, norms included, position x (output d) x column.

    `taken`, row x column, says which pairs of images contribute.
    """
    sides = _Sides(plan, rows, columns)
    h, w = (int(side) for side in plan.sizes[0])
    weights, mask = alpha.to(sides.device), torch.from_numpy(taken)[..., None, None].to(sides.device)
    out = torch.zeros(
        sides.pairs[1], h, w, alpha.shape[1], plan.dimension, dtype=sides.dtype, device=sides.device
    )
    for shift in sides.shifts():
        products, square = sides.products(shift), sides.own_squares()
        (dy, dx), (first, _) = shift, sides.maps(shift)
        second = [_window(layer, dy, dx) for layer in sides.layers(square)]
        value, _ = _forward_layers(sides.kernel, products, first, second)
        slopes = torch.autograd.grad(value.sum() / sides.divisor, (products, square))
        by_product, by_norm = (slope * mask for slope in slopes)
        # ∇_{z[p+τ]} K = (∂K/∂s) x[p] + 2 (∂K/∂n) z[p+τ]: the first part at the displaced positions ...
        first_maps = _window(sides.first, -dy, -dx)
        target = _window(out.permute(0, 3, 4, 1, 2), dy, dx)
        target += torch.einsum("nmhw,ndhw,nk->mkdhw", by_product, first_maps, weights)
        # ... the second where n was differentiated, without displacement
        norms = 2 * torch.einsum("nmhw,nk->mkhw", by_norm, weights)
        out += torch.einsum("mkhw,mdhw->mhwkd", norms, sides.second)
    return out.permute(1, 2, 3, 4, 0).flatten(2, 3).flatten(0, 1).cpu()


class _CloseCosines:
    """Counts cosines close to 1: without a displacement, where nearly identical images show, and with one."""

    def __init__(self, plan: KernelPlan, like: Tensor) -> None:
        self.sizes = plan.sizes
        self.weights = [torch.zeros_like(like), torch.zeros_like(like)]
        self.positions = [0, 0]

    def add(self, shift: tuple[int, int], close: Float[Tensor, "n m"]) -> None:
        """Add the weights that were found at one displacement."""
        moved = int(shift != (0, 0))
        self.weights[moved] += close
        self.positions[moved] += int((self.sizes - np.abs(shift)).prod(1).sum())

    def shares(self) -> np.ndarray:
        """The larger of the two weighted shares."""
        still, moved = (w / max(p, 1) for w, p in zip(self.weights, self.positions, strict=True))
        shares: np.ndarray = torch.maximum(still, moved).cpu().numpy()
        return shares


class _Sides:
    """Both sides of a tile as maps, image x ... x row x column, where the accelerator can reach them."""

    def __init__(self, plan: KernelPlan, rows: FirstImages, columns: SecondImages) -> None:
        assert isinstance(plan.kernel, ConvKernel)
        self.plan, self.kernel = plan, plan.kernel
        self.dtype = rows.patches.dtype
        self.device = accelerator() or torch.device("cpu")
        self.sizes = [(int(h), int(w)) for h, w in plan.sizes]
        self.first = self._maps(rows.patches.permute(1, 2, 0))
        self.second = self._maps(columns.patches.permute(2, 1, 0))
        self.first_squares = self._layers_of(rows.squares)
        self.second_squares = self._layers_of(columns.squares)
        self.pairs = (len(self.first), len(self.second))

    @property
    def divisor(self) -> int:
        return self.plan.last ** (2 if self.kernel.readout == "gap" else 1)

    def _maps(self, patches: Tensor) -> Tensor:
        return patches.reshape(*patches.shape[:2], *self.sizes[0]).to(self.device)

    def _layers_of(self, squares: Float[Tensor, "t n"]) -> Maps:
        parts = torch.split(squares.T, [h * w for h, w in self.sizes], 1)
        shaped = (part.reshape(-1, *size) for part, size in zip(parts, self.sizes, strict=True))
        return [part.to(self.device, self.dtype) for part in shaped]

    def shifts(self) -> Iterator[tuple[int, int]]:
        """Displacements of the two positions: none for flatten, all for pooled kernels."""
        if self.kernel.readout == "flatten":
            yield 0, 0
            return
        h, w = self.sizes[-1]
        yield from ((dy, dx) for dy in range(1 - h, h) for dx in range(1 - w, w))

    def products(self, shift: tuple[int, int]) -> Float[Tensor, "n m h w"]:
        """Inner products of patches a displacement apart, ready to be differentiated."""
        a, b = _window(self.first, -shift[0], -shift[1]), _window(self.second, *shift)
        return torch.einsum("ndhw,mdhw->nmhw", a, b).requires_grad_()

    def maps(self, shift: tuple[int, int]) -> tuple[Maps, Maps]:
        """Squared norms of all layers on the overlap, shaped so that they multiply to pairs."""
        first = [_window(layer, -shift[0], -shift[1])[:, None] for layer in self.first_squares]
        return first, [_window(layer, *shift)[None] for layer in self.second_squares]

    def own_squares(self) -> Float[Tensor, "n m h w"]:
        """Squared norms of the columns' patches, one copy for each pair, to be differentiated by pair."""
        # σ_b² is part of Λ¹(z,z) but not of ‖z[p]‖²
        plain = self.second_squares[0] - self.kernel.bias_variance
        return plain.expand(self.pairs[0], *plain.shape).clone().requires_grad_()

    def layers(self, square: Float[Tensor, "n m h w"]) -> Maps:
        """Squared norms of all layers from those of the first, as part of the graph."""
        variances = [square + self.kernel.bias_variance]
        while len(variances) < len(self.sizes):
            # Λ(z,z)[p,p] → (σ_w²/q²) Σδ Λ(z,z)[p+δ,p+δ] + σ_b², for κ₁(1) = 1
            variances.append(self.kernel.scale * _box(variances[-1], self.kernel) + self.kernel.bias_variance)
        return variances


def _forward_layers(kernel: ConvKernel, products: Tensor, first: Maps, second: Maps) -> tuple[Tensor, Tensor]:
    """Sum over the last layer's positions, and weight of close cosines, of every pair."""
    covariance = products + kernel.bias_variance
    sigma, tangent = covariance, torch.zeros_like(covariance)
    close = torch.zeros(products.shape[:2], dtype=products.dtype, device=products.device)
    for layer, (a, b) in enumerate(zip(first, second, strict=True)):
        if layer:
            covariance = kernel.scale * _box(sigma, kernel) + kernel.bias_variance
            tangent = kernel.scale * _box(tangent, kernel)
        # Λ(x,x) Λ(z,z) → ρ = Λ / √(Λ(x,x) Λ(z,z)), 0 for a zero patch
        square = a * b
        nonzero = square > 0
        norm = torch.where(nonzero, square, 1.0).sqrt()
        rho = torch.where(nonzero, covariance / norm, 0.0)
        # 1 - |ρ|: near 1 the slope of arccos is infinite, so equal patches are taken out by construction
        gap = 1 - rho.abs()
        apart = gap > _SAME[products.dtype]
        inner = torch.where(apart, rho, 0.0)  # identical patches: no slope, by construction
        # κ₀ = 1 - θ/π and κ₁ = ρκ₀ + sin θ/π
        angle = torch.where(apart, torch.acos(inner), math.pi * (rho < 0).to(rho.dtype))
        sine = torch.where(apart, ((1 - inner) * (1 + inner)).sqrt(), 0.0)
        kappa = 1 - angle / math.pi
        sigma = torch.where(nonzero, norm * (rho * kappa + sine / math.pi), 0.0)
        # T = κ₀(ρ) (Λ + (σ_w²/q²) ΣδT)
        tangent = torch.where(nonzero, kappa * (covariance + tangent), 0.0)
        close += ((gap < NEAR64).to(gap.dtype) + (HEAVY64 - 1) * (gap < NEARER64)).detach().sum((2, 3))
    last = sigma if kernel.kind == "nngp" else sigma + tangent
    return last.double().sum((2, 3)), close


def _box(maps: Float[Tensor, "n m h w"], kernel: ConvKernel) -> Tensor:
    return F.avg_pool2d(maps, kernel.size, 1, kernel.padding) * kernel.size**2


def _window(maps: Tensor, dy: int, dx: int) -> Tensor:
    """The part of the last two axes that overlaps a copy moved by so much."""
    h, w = maps.shape[-2:]
    return maps[..., max(0, dy) : h + min(0, dy), max(0, dx) : w + min(0, dx)]


def _by_position(maps: Float[Tensor, "n m h w"]) -> Float[Tensor, "p n m"]:
    return maps.flatten(2).permute(2, 0, 1).contiguous().cpu()
