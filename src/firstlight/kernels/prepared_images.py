"""Images made ready for the inner loops: transformed patches, and the norms of every layer."""

import math
import threading
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.shapes import Images
from firstlight.kernels.average_pooling import PoolingPlan, in_lines
from firstlight.kernels.compiled.layers import LANES, Layers
from firstlight.kernels.compiled.patches import layer_squares, own_sums, pair_products, square_norms
from firstlight.kernels.kernel import ConvKernel, Kernel, check_metric
from firstlight.maths.patches import check_images
from firstlight.maths.psd import psd_sqrt

ROWS = 32  # images on the first side of a tile
_ZERO = 1e-24  # squared norms below this share of the largest are rounding of a zero patch


class Workspace(threading.local):
    """Arrays that every thread fills again and again; fresh memory for every tile costs a tenth of the time."""

    def __init__(self) -> None:
        self._arrays: dict[tuple[str, torch.dtype], Tensor] = {}

    def __call__(self, name: str, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
        """Return an array that holds anything."""
        size, array = math.prod(shape), self._arrays.get((name, dtype))
        if array is None or len(array) < size:
            array = self._arrays[name, dtype] = torch.empty(size, dtype=dtype)
        return array[:size].view(shape)


@dataclass(frozen=True)
class KernelPlan:
    """A kernel for images of one shape, with its metric: what all tiles share."""

    kernel: Kernel
    shape: tuple[int, int, int]
    root: Tensor | None

    @classmethod
    def of(cls, kernel: Kernel, images: Images, metric: Float[Tensor, "d d"] | None) -> "KernelPlan":
        """Check the images and the metric, and take its root."""
        check_images(images)
        _, c, h, w = images.shape
        kernel.layer_sizes(h, w)
        check_metric(metric, kernel, c)
        return cls(kernel, (c, h, w), None if metric is None else psd_sqrt(metric.double()))

    @property
    def sizes(self) -> np.ndarray:
        """Rows and columns of positions of every layer."""
        return np.array(self.kernel.layer_sizes(*self.shape[1:]), dtype=np.int64)

    @property
    def positions(self) -> int:
        """Number of first-layer positions."""
        return int(np.prod(self.sizes[0]))

    @property
    def last(self) -> int:
        """Number of last-layer positions."""
        return int(np.prod(self.sizes[-1]))

    @property
    def dimension(self) -> int:
        """Length of a patch."""
        return self.kernel.geometry.dimension(self.shape[0])

    def layers(self, dtype: torch.dtype) -> Layers:
        """What the compiled loops must know."""
        kernel = self.kernel
        assert isinstance(kernel, ConvKernel)
        # in the precision of the loops: one float64 factor would make every product a float64 one, at half the speed
        values = [1.0, kernel.scale, kernel.bias_variance]  # the patches hold the first layer's factor
        scales = np.array(values, dtype=str(dtype).removeprefix("torch."))
        return Layers(self.sizes, kernel.size, kernel.padding, scales, kernel.kind == "nngp")

    @property
    def pooling_plan(self) -> PoolingPlan:
        """The layers between poolings."""
        assert isinstance(self.kernel, ConvKernel)
        return PoolingPlan(self.kernel, self.sizes, self.layers(torch.float64).scales)

    def check(self, images: Images, name: str) -> None:
        """Refuse images of another shape."""
        check_images(images)
        if tuple(images.shape[1:]) != self.shape:
            raise InvalidInput(f"`{name}` must hold images of {self.shape}; got {tuple(images.shape[1:])}.")

    def patches(self, images: Images, dtype: torch.dtype) -> Float[Tensor, "p d n"]:
        """Patches in the coordinates in which M is the identity, with the kernel's factor."""
        geometry = self.kernel.geometry
        (size, _), (stride, _), (padding, _) = geometry.size, geometry.stride, geometry.padding
        pixels = F.pad(images.permute(1, 2, 3, 0).to(dtype), (0, 0) + (padding,) * 4)
        pixels = pixels * self.kernel.patch_scale(self.shape[0]) ** 0.5
        # channel x line x column x image x row x column of the patch; images stay side by side in the last axis
        windows = pixels.unfold(1, size, stride).unfold(2, size, stride).permute(1, 2, 0, 4, 5, 3)
        patches: Tensor = windows.reshape(self.positions, self.dimension, len(images)).contiguous()
        # x[p]ᵀ M z[p] = ⟨M^½ x[p], M^½ z[p]⟩
        return patches if self.root is None else self.root.to(dtype) @ patches

    @property
    def shares_pixels(self) -> bool:
        """Whether patches are windows of one image, so that products of pixels serve all patches that hold them."""
        return self.root is None and self.kernel.geometry.stride[0] == 1

    def planes(self, patches: Float[Tensor, "p n d"]) -> np.ndarray:
        """Entry x line x column x image: channels of pixels where patches share them, else entries of patches."""
        h, w = (int(side) for side in self.sizes[0])
        flat = patches.mT.numpy()
        if not self.shares_pixels:
            return np.moveaxis(flat.reshape(h, w, *flat.shape[1:]), 2, 0)
        size = self.kernel.geometry.size[0]
        # patches overlap: every pixel is read off one of the patches that hold it
        line, column = np.arange(h + size - 1), np.arange(w + size - 1)
        # a patch that holds the pixel
        patch_row, patch_column = np.minimum(line, h - 1), np.minimum(column, w - 1)
        position = patch_row[:, None] * w + patch_column
        entry = (line - patch_row)[:, None] * size + (column - patch_column)
        channels: np.ndarray = np.arange(self.shape[0])[:, None, None] * size**2
        planes: np.ndarray = flat[position[None], channels + entry]
        return planes

    def squares(self, patches: Float[Tensor, "p d n"]) -> Float[Tensor, "t n"]:
        """Λ(x, x)[p, p] of all positions of all layers, zero where it is only rounding."""
        kernel, sizes = self.kernel, self.sizes
        squares = torch.empty(int(sizes.prod(1).sum()), patches.shape[2], dtype=torch.float64)
        first = squares[: self.positions]
        square_norms(patches.numpy(), first.numpy())
        # a patch in the null space of M comes out as rounding, whose direction would be an arbitrary cosine
        first[first <= _ZERO * first.max()] = 0.0
        if isinstance(kernel, ConvKernel) and kernel.pooling:
            pooling, images = self.pooling_plan, in_lines(patches.double(), int(sizes[0, 0]))
            empty = None  # lanes without an image share one result
            for i, image in enumerate(images):
                if empty is None or image.any():
                    squares[:, i] = torch.from_numpy(pooling.squares(image, first[:, i].numpy().copy()))
                    empty = empty if image.any() else i
                else:
                    squares[:, i] = squares[:, empty]
        elif isinstance(kernel, ConvKernel):
            filters = (kernel.size, kernel.padding)
            layer_squares(squares.numpy(), sizes, filters, kernel.scale, kernel.bias_variance)
        return squares


@dataclass(frozen=True)
class FirstImages:
    """Images on the first side of a tile."""

    plan: KernelPlan
    patches: Float[Tensor, "p rows d"]
    norms: Float[Tensor, "rows t 2"]
    squares: Float[Tensor, "t rows"]

    @classmethod
    def of(cls, plan: KernelPlan, images: Images, dtype: torch.dtype) -> "FirstImages":
        """Prepare up to `ROWS` images."""
        patches = plan.patches(images, dtype)
        return cls._of(plan, patches, plan.squares(patches))

    @classmethod
    def like(cls, columns: "SecondImages") -> "FirstImages":
        """Images that are ready as columns."""
        return cls._of(columns.plan, columns.patches[:, :, : columns.n], columns.squares[:, : columns.n])

    @cached_property
    def pixels(self) -> np.ndarray:
        """Pixels, image x line x (column channel)."""
        planes = self.plan.planes(self.patches)
        return np.ascontiguousarray(planes.transpose(3, 1, 2, 0)).reshape(
            planes.shape[3], planes.shape[1], -1
        )

    @classmethod
    def _of(
        cls, plan: KernelPlan, patches: Float[Tensor, "p d rows"], squares: Float[Tensor, "t rows"]
    ) -> "FirstImages":
        norm = squares.T.sqrt()
        norms = torch.stack([norm, torch.where(norm > 0, 1 / norm, 0.0)], 2).to(patches.dtype)
        return cls(plan, patches.mT, norms, squares)


def column_norms(squares: Float[Tensor, "t lanes"], dtype: torch.dtype) -> Float[Tensor, "t slots"]:
    """Norm, inverse norm and half its square, position x (slot image); all 0 for a zero patch."""
    nonzero = squares > 0
    inverse = 1 / torch.where(nonzero, squares, 1.0).sqrt()
    slots = squares * inverse, inverse, 0.5 * inverse * inverse
    return torch.cat([torch.where(nonzero, slot, 0.0) for slot in slots], 1).to(dtype)


@dataclass(frozen=True)
class SecondImages:
    """Images on the second side of a tile, one in each lane; lanes beyond `n` are empty."""

    plan: KernelPlan
    patches: Float[Tensor, "p d lanes"]
    norms: Float[Tensor, "t slots"]
    squares: Float[Tensor, "t lanes"]
    n: int

    @classmethod
    def of(cls, plan: KernelPlan, images: Images, dtype: torch.dtype, width: int = LANES) -> "SecondImages":
        """Prepare up to `width` images."""
        n = len(images)
        patches = plan.patches(F.pad(images, (0, 0) * 3 + (0, width - n)), dtype)
        squares = plan.squares(patches)
        return cls(plan, patches, column_norms(squares, dtype), squares, n)

    @cached_property
    def pixels(self) -> np.ndarray:
        """Pixels, line x column x (channel lane)."""
        planes = self.plan.planes(self.patches.mT)
        return np.ascontiguousarray(planes.transpose(1, 2, 0, 3)).reshape(*planes.shape[1:3], -1)

    def own_values(self, plan: KernelPlan) -> np.ndarray:
        """K(x, x) of every image in closed form from the norms; flatten kernels of networks only."""
        kernel = plan.kernel
        assert isinstance(kernel, ConvKernel)
        diagonal = np.empty(self.squares.shape[1])
        filters = (kernel.size, kernel.padding)
        own_sums(self.squares.numpy(), plan.sizes, filters, kernel.scale, kernel.kind == "nngp", diagonal)
        return diagonal[: self.n] / plan.last


@dataclass(frozen=True)
class SinglePairs:
    """Single pairs x[i], z[j] in float64; every image is prepared once, for few make up most pairs."""

    plan: KernelPlan
    first: Float[Tensor, "p d a"]
    second: Float[Tensor, "p d b"]
    first_squares: Float[Tensor, "t a"]
    second_squares: Float[Tensor, "t b"]
    i: np.ndarray
    j: np.ndarray

    @classmethod
    def of(cls, plan: KernelPlan, x: Tensor, z: Tensor, pairs: np.ndarray) -> "SinglePairs":
        """Prepare the images of some pairs; `pairs` is one row of two indices each."""
        some, i = np.unique(pairs[:, 0], return_inverse=True)
        others, j = np.unique(pairs[:, 1], return_inverse=True)
        first, second = plan.patches(x[some], torch.float64), plan.patches(z[others], torch.float64)
        return cls(plan, first, second, plan.squares(first), plan.squares(second), i, j)

    def sides(self, part: slice) -> tuple[np.ndarray, np.ndarray]:
        """Inner products of patches, and norms, of up to `LANES` of the pairs, padded with zeros to `LANES`."""
        i, j = self.i[part], self.j[part]
        products = np.zeros((self.plan.positions, LANES))
        pair_products(self.first.numpy(), self.second.numpy(), i, j, products)
        first, second = self.first_squares[:, i], self.second_squares[:, j]
        norm = (first * second).sqrt()
        # 1/(2s) for the derivative of N = √(Λ(x,x) s) by s
        slots = norm, torch.where(norm > 0, 1 / norm, 0.0), torch.where(second > 0, 0.5 / second, 0.0)
        return products, torch.cat([F.pad(slot, (0, LANES - len(i))) for slot in slots], 1).numpy()
