"""Images made ready for the inner loops: transformed patches, and the norms of every layer."""

from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from firstlight.core.errors import InvalidInput
from firstlight.core.shapes import Images
from firstlight.kernels import lanes
from firstlight.kernels.lanes import LANES
from firstlight.kernels.spec import ConvKernel, Kernel, check_metric
from firstlight.maths import psd_sqrt
from firstlight.maths.patches import check_images

ROWS = 32  # images on the first side of a tile
_ZERO = 1e-24  # squared norms below this share of the largest are rounding of a zero patch


@dataclass(frozen=True)
class Plan:
    """A kernel for images of one shape, with its metric: what all tiles share."""

    kernel: Kernel
    shape: tuple[int, int, int]
    root: Tensor | None

    @classmethod
    def of(cls, kernel: Kernel, images: Images, metric: Float[Tensor, "d d"] | None) -> "Plan":
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

    def scales(self, dtype: torch.dtype) -> np.ndarray:
        """Factors of the first and the later layers, and the bias variance."""
        assert isinstance(self.kernel, ConvKernel)
        values = [1.0, self.kernel.scale, self.kernel.bias_variance]
        return np.array(values, dtype=str(dtype).removeprefix("torch."))

    def check(self, images: Images, name: str) -> None:
        """Refuse images of another shape."""
        check_images(images)
        if tuple(images.shape[1:]) != self.shape:
            raise InvalidInput(f"`{name}` must hold images of {self.shape}; got {tuple(images.shape[1:])}.")

    def patches(self, images: Images, dtype: torch.dtype) -> Float[Tensor, "p n d"]:
        """Patches in the coordinates in which M is the identity, with the kernel's factor."""
        found = torch.empty(self.positions, len(images), self.dimension, dtype=dtype)
        geometry = self.kernel.geometry
        pixels = (images.double() * self.kernel.patch_scale(self.shape[0]) ** 0.5).to(dtype)
        pixels = F.pad(pixels, (geometry.padding[0],) * 4).contiguous()
        lanes.gather_patches(pixels.numpy(), geometry.size[0], geometry.stride[0], found.numpy())
        return found if self.root is None else found @ self.root.to(dtype)

    def squares(self, patches: Float[Tensor, "p n d"]) -> Float[Tensor, "n t"]:
        """Λ(x, x)[p, p] of all positions of all layers, zero where it is only rounding."""
        kernel = self.kernel
        first = torch.empty(patches.shape[1], patches.shape[0], dtype=torch.float64)
        lanes.square_norms(patches.numpy(), first.numpy())
        first = torch.where(first > _ZERO * first.max(), first, 0.0)
        if not isinstance(kernel, ConvKernel):
            return first
        sizes = kernel.layer_sizes(*self.shape[1:])
        layer = (first + kernel.bias_variance).reshape(len(first), 1, *sizes[0])
        found = [layer]
        for _ in sizes[1:]:
            sums = F.avg_pool2d(layer, kernel.size, 1, kernel.padding) * kernel.size**2
            layer = kernel.scale * sums + kernel.bias_variance
            found.append(layer)
        return torch.cat([layer.flatten(1) for layer in found], 1)


def inverse(norms: Tensor) -> Tensor:
    """1 / norm, and 0 for a zero patch."""
    return torch.where(norms > 0, 1 / torch.where(norms > 0, norms, 1.0), 0.0)


@dataclass(frozen=True)
class Rows:
    """Images on the first side of a tile."""

    patches: Float[Tensor, "p rows d"]
    norms: Float[Tensor, "rows t 2"]
    squares: Float[Tensor, "rows t"]

    @classmethod
    def of(cls, plan: Plan, images: Images, dtype: torch.dtype) -> "Rows":
        """Prepare up to `ROWS` images."""
        patches = plan.patches(images, dtype)
        squares = plan.squares(patches)
        norms = squares.sqrt()
        return cls(
            patches,
            torch.stack([norms, inverse(norms)], -1).to(dtype),
            squares,
        )


@dataclass(frozen=True)
class Columns:
    """Images on the second side of a tile, one in each lane; lanes beyond `n` are empty."""

    patches: Float[Tensor, "p d lanes"]
    norms: Float[Tensor, "t slots"]
    squares: Float[Tensor, "lanes t"]
    n: int

    @classmethod
    def of(cls, plan: Plan, images: Images, dtype: torch.dtype) -> "Columns":
        """Prepare up to `LANES` images."""
        n = len(images)
        patches = plan.patches(F.pad(images, (0, 0) * 3 + (0, LANES - n)), dtype)
        squares = plan.squares(patches)
        norms = squares.sqrt()
        inverses = inverse(norms)
        packed = torch.stack([norms, inverses, 0.5 * inverses.square()], 0)
        return cls(
            patches.mT.contiguous(),
            packed.permute(2, 0, 1).flatten(1).to(dtype).contiguous(),
            squares,
            n,
        )
