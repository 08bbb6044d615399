"""Kernels with average pooling between layers, such as the Myrtle kernels."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.kernels.compiled.average_pooling import pooling_stage
from firstlight.kernels.compiled.layers import Layers
from firstlight.kernels.kernel import ConvKernel

Maps = tuple[np.ndarray, np.ndarray]


@dataclass(frozen=True)
class PoolingPlan:
    """A kernel with pooling for images of one shape: what all pairs share."""

    kernel: ConvKernel
    sizes: np.ndarray  # lines and columns of every layer
    scales: np.ndarray

    def parts(self) -> Iterator[tuple[slice, slice, bool]]:
        """Layers and positions of every stage, and whether pooling follows."""
        ends = [*self.kernel.pooling, self.kernel.depth]
        starts = np.concatenate([[0], np.cumsum(self.sizes.prod(1))])
        first = 0
        for end in ends:
            yield slice(first, end), slice(int(starts[first]), int(starts[end])), end in self.kernel.pooling
            first = end

    def value(self, first: np.ndarray, second: np.ndarray, sides: Maps) -> tuple[float, float]:
        """Mean over all pairs of last positions, and the weighted share of cosines close to 1, of two images.

        Images are lines x entry x column of patches; `sides` comes from :meth:`sides`. The share is the larger one of
        those of equal and of displaced positions.
        """
        total, close = 0.0, np.zeros(3)
        below = _no_maps(first.dtype)
        for index, (layers, part, pools) in enumerate(self.parts()):
            patches = (first, second) if index == 0 else (first[:0], second[:0])
            own_sides = sides[0][2 * part.start : 2 * part.stop], sides[1][2 * part.start : 2 * part.stop]
            (total, *counted), below = self._stage(patches, below, own_sides, layers, pools)
            close += counted
        # each share by the number of cosines looked at: few equal positions must not drown among all pairs
        still, moved, searched = close.tolist()
        count = int(self.sizes[-1].prod())
        return total / count**2, max(still / int(self.sizes.prod(1).sum()), moved / max(searched, 1))

    def sides(self, squares: Float[np.ndarray, " t"], dtype: np.dtype | type = np.float64) -> np.ndarray:
        """Norms of an image as the loops want them, from their squares."""
        return _sides(squares, self.sizes, dtype)

    def squares(self, patches: np.ndarray, squares: Float[np.ndarray, " p"]) -> Float[np.ndarray, " t"]:
        """Λ(x, x)[p, p] of all layers of an image, from its patches and their squared norms.

        Pooling averages over pairs of different positions: all that precedes it is needed in full.
        """
        kernel, found = self.kernel, []
        below = _no_maps(patches.dtype)
        square = squares.reshape(self.sizes[0]) + kernel.bias_variance
        for index, (layers, _, pools) in enumerate(self.parts()):
            if index:
                # a pooled norm is a mean over 4 x 4 pairs of positions: read off the diagonal of the pooled pairs
                h, w = self.sizes[layers.start - 1] // 2
                pooled = below[0].reshape(h, h, w, w)
                lines, columns = np.arange(h)[:, None], np.arange(w)[None]
                square = self._next(pooled[lines, lines, columns, columns])
            # between poolings κ₁(1) = 1, so the norms need none but themselves
            stage = [square]
            for _ in range(layers.start + 1, layers.stop):
                stage.append(self._next(stage[-1]))
            flat = np.concatenate([values.ravel() for values in stage])
            found.append(flat)
            if pools:
                both = (patches if index == 0 else patches[:0],) * 2
                side = _sides(flat, self.sizes[layers], np.float64)
                _, below = self._stage(both, below, (side, side), layers, pools)
        return np.concatenate(found)

    def _next(self, square: np.ndarray) -> np.ndarray:
        kernel = self.kernel
        # Λ(x,x)[p,p] → Σ(x,x) = Λ(x,x) → σ_w²/q² Σδ Λ(x,x)[p+δ, p+δ] + σ_b²; the mean pool times q² is the sum
        maps = torch.from_numpy(np.ascontiguousarray(square))[None]
        pooled = torch.nn.functional.avg_pool2d(maps, kernel.size, 1, kernel.padding) * kernel.size**2
        values: np.ndarray = kernel.scale * pooled[0].numpy() + kernel.bias_variance
        return values

    def _stage(
        self, patches: Maps, below: Maps, sides: Maps, layers: slice, pools: bool
    ) -> tuple[tuple[float, float, float, int], Maps]:
        dtype = patches[0].dtype
        sizes, kernel = self.sizes[layers], self.kernel
        layers_of_stage = Layers(
            sizes, kernel.size, kernel.padding, self.scales.astype(dtype), kernel.kind == "nngp"
        )
        height = self.sizes[layers.start - 1] // 2 if layers.start else sizes[0]
        h, w = np.maximum(height, sizes[0])
        strips = np.empty((2, 2, h, w * w), dtype)
        buffers = ((strips[0, 0], strips[0, 1]), (strips[1, 0], strips[1, 1]), np.empty(w * w, dtype))
        rows, columns = sizes[-1] // 2
        maps = np.zeros((2, rows, rows, columns * columns), dtype) if pools else None
        above = _no_maps(dtype) if maps is None else (maps[0], maps[1])
        sums = pooling_stage(patches, below, sides, layers_of_stage, height, buffers, above)
        return sums, above


def _sides(squares: Float[np.ndarray, " t"], sizes: np.ndarray, dtype: np.dtype | type) -> np.ndarray:
    """For every line of positions its norms, then their inverses; both 0 for a zero patch."""
    norm = np.sqrt(squares)
    both = np.stack([norm, np.divide(1.0, norm, out=np.zeros_like(norm), where=norm > 0)])
    parts = np.split(both, np.cumsum(sizes.prod(1))[:-1], axis=1)
    lines = [part.reshape(2, *size).swapaxes(0, 1).ravel() for part, size in zip(parts, sizes, strict=True)]
    return np.concatenate(lines).astype(dtype)


def in_lines(patches: Float[Tensor, "p d n"], lines: int) -> np.ndarray:
    """Image x line x entry x column, from position x entry x image."""
    p, d, n = patches.shape
    shaped = patches.reshape(lines, p // lines, d, n)
    moved: np.ndarray = shaped.permute(3, 0, 2, 1).contiguous().numpy()
    return moved


def _no_maps(dtype: np.dtype) -> Maps:
    empty = np.empty((0, 0, 1), dtype)
    return empty, empty
