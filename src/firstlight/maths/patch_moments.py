r"""First and second moments of all patches of a stream of images, without building the patches.

With `x(r)` the r-th rows of a block of images, side by side as a matrix of one line per image, every
product of two pixels in one patch is an entry of some :math:`x(r)^\top x(r + \delta)`, with δ below the
patch height. An entry of the patch moment matrix is the sum of such entries over all window positions:
over a range of rows `r`, and down a diagonal of the product. Rows that belong to exactly the same windows
are summed inside one matrix product, and the columns are cut in tiles, since pixels further apart than
the patch is wide never meet.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.maths.patches import PatchGeometry, check_images, extract_patches, mean_patches

BLOCK_ELEMENTS = 1 << 18  # numbers in a block of images: 2 MB of float64, what a core has near
UNFOLDED_ELEMENTS = 1 << 22  # numbers in a block of unfolded patches
TILE_NUMBERS = 48  # columns of a tile times channels; flat optimum between 32 and 96


@dataclass(frozen=True, kw_only=True)
class _Moments:
    """Mean and covariance (divided by the number of vectors) of a set of vectors."""

    mean: Float[Tensor, " d"]
    covariance: Float[Tensor, "d d"]
    n_vectors: int
    n_images: int


class _Accumulator(Protocol):
    def add(self, images: Tensor) -> None: ...

    def total(self) -> Tensor: ...


def patch_moments(
    images: Tensor | Iterable[Tensor], geometry: PatchGeometry, *, block: int | None = None
) -> _Moments:
    """Mean and covariance of all patches, in one pass over the images and in float64.

    Parameters
    ----------
    images : Tensor or iterable of Tensor
        A tensor ``n c h w``, or an iterable of such blocks of one image size.
    geometry : PatchGeometry
        Which patches.
    block : int, optional
        Images worked on at a time; by default about 2 MB of float64.

    Notes
    -----
    Pixels are shifted by the channel means of the first block before anything is multiplied, so that a
    large common offset does not eat the digits of the covariance. Dense geometries take the product of
    rows described at the top of this module, all others unfold a block at a time.
    """
    accumulator: _Accumulator | None = None
    n_images = 0
    for part in image_blocks(images, block=block):
        padded = _padded(part, geometry)
        if accumulator is None:
            positions = geometry.positions(*part.shape[2:])
            bare = PatchGeometry(size=geometry.size, stride=geometry.stride, dilation=geometry.dilation)
            shift = padded.mean((0, 2, 3), keepdim=True)
            accumulator = _RowProducts(padded.shape, bare) if bare.is_dense else _Unfolded(padded.shape, bare)
            image_sum = torch.zeros(padded.shape[1:], dtype=torch.float64)
        padded -= shift
        accumulator.add(padded)
        image_sum += padded.sum(0)
        n_images += len(part)
    if accumulator is None:
        raise InvalidInput("`images` must hold at least one block of images; got an empty iterable.")
    n_vectors = n_images * positions[0] * positions[1]
    mean = mean_patches(image_sum[None] / n_images, bare)[0]  # taking patches and averaging commute
    covariance = accumulator.total() / n_vectors - torch.outer(mean, mean)
    offset = shift.flatten().repeat_interleave(geometry.size[0] * geometry.size[1])
    return _Moments(
        mean=mean + offset, covariance=(covariance + covariance.T) / 2, n_vectors=n_vectors, n_images=n_images
    )


def image_blocks(images: Tensor | Iterable[Tensor], *, block: int | None = None) -> Iterator[Tensor]:
    """Cut a tensor, or every tensor of a stream, in blocks of at most `block` images of one size."""
    if block is not None and block < 1:
        raise InvalidInput(f"`block` must be at least 1; got block={block}.")
    shape = None
    for part in [images] if isinstance(images, Tensor) else images:
        check_images(part, finite=False)
        shape = shape or part.shape[1:]
        if part.shape[1:] != shape:
            raise InvalidInput(
                f"all blocks of `images` must have one shape, {tuple(shape)}; got {tuple(part.shape[1:])}."
            )
        size = block or max(1, BLOCK_ELEMENTS // part[0].numel())
        for start in range(0, len(part), size):
            yield part[start : start + size]


def _padded(images: Tensor, geometry: PatchGeometry) -> Tensor:
    rows, columns = geometry.padding
    padded = F.pad(images.detach().cpu().double(), (columns, columns, rows, rows))
    return padded.clone() if padded.data_ptr() == images.data_ptr() else padded


class _Unfolded:
    """Second moments by unfolding a few images at a time: for strides and dilations."""

    def __init__(self, shape: torch.Size, geometry: PatchGeometry) -> None:
        _, c, h, w = shape
        self.geometry = geometry
        rows, columns = geometry.positions(h, w)
        d = geometry.dimension(c)
        self.chunk = max(1, UNFOLDED_ELEMENTS // (rows * columns * d))
        self.second = torch.zeros(d, d, dtype=torch.float64)

    def add(self, images: Tensor) -> None:
        """Add the patches of these images."""
        for start in range(0, len(images), self.chunk):
            patches = extract_patches(images[start : start + self.chunk], self.geometry).flatten(0, 1)
            self.second.addmm_(patches.T, patches)

    def total(self) -> Tensor:
        """Sum of the outer products of all patches."""
        return self.second


class _RowProducts:
    """Second moments from products of pixel rows: for stride 1 and dilation 1.

    Holds, for every row displacement, one matrix per run of rows that share their windows and per tile of
    columns: at most `k² (w c) (tile + 2k) c` numbers for k × k patches, whatever the number of images.
    """

    def __init__(self, shape: torch.Size, geometry: PatchGeometry) -> None:
        _, self.c, self.h, self.w = shape
        self.kh, self.kw = geometry.size
        self.rows, self.columns = geometry.positions(self.h, self.w)
        reach = self.kw - 1
        width = max(TILE_NUMBERS // self.c, reach, 1)
        self.tiles = [
            (u, min(u + width, self.w), max(u - reach, 0), min(u + width + reach, self.w))
            for u in range(0, self.w, width)
        ]
        self.runs = [self._row_runs(step) for step in range(self.kh)]
        self.products = {
            (step, run, tile): torch.zeros(
                (tile[1] - tile[0]) * self.c, (tile[3] - tile[2]) * self.c, dtype=torch.float64
            )
            for step in range(self.kh)
            for run in self.runs[step]
            for tile in self.tiles
        }

    def _row_runs(self, step: int) -> list[tuple[int, int]]:
        """Cut the first rows of all pairs `step` apart where a window position begins or ends."""
        entries = range(self.kh - step)
        cuts = sorted({*entries, *(entry + self.rows for entry in entries)})
        return list(pairwise(cuts))

    def add(self, images: Tensor) -> None:
        """Add the patches of these images."""
        lines = images.permute(2, 0, 3, 1).flatten(2).contiguous()  # rows of pixels: h, n, (w c)
        # x(r)ᵀ x(r + δ) for all rows r of a run at once: rows and images are summed inside one matrix product
        for (step, (start, stop), (u0, u1, v0, v1)), product in self.products.items():
            upper = lines[start:stop].flatten(0, 1)[:, u0 * self.c : u1 * self.c]
            lower = lines[start + step : stop + step].flatten(0, 1)[:, v0 * self.c : v1 * self.c]
            product.addmm_(upper.T, lower)

    def total(self) -> Tensor:
        """Sum of the outer products of all patches."""
        c, kh, kw = self.c, self.kh, self.kw
        second = torch.zeros(c, kh, kw, c, kh, kw, dtype=torch.float64)
        entry = torch.arange(kw)
        apart = entry[None, :] - entry[:, None] + kw - 1  # of patch columns j and j', from 0
        for step in range(kh):
            bands = torch.stack([self._band(step, run) for run in self.runs[step]])
            starts = [start for start, _ in self.runs[step]]
            stops = [stop for _, stop in self.runs[step]]
            for i in range(kh - step):
                # patch row i meets the image rows i .. i + rows - 1: these runs and no others
                window = bands[starts.index(i) : stops.index(i + self.rows) + 1].sum(0)
                # ... and patch column j the columns j .. j + columns - 1, of every diagonal
                sums = window.unfold(1, self.columns, 1).sum(-1)  # (apart, first column, c, c')
                moments = sums[apart, entry[:, None]]  # (j, j', c, c')
                second[:, i, :, :, i + step, :] = moments.permute(2, 0, 3, 1)  # c, j, e, k
                second[:, i + step, :, :, i, :] = moments.permute(3, 1, 2, 0)  # e, k, c, j
        return second.reshape(c * kh * kw, c * kh * kw)

    def _band(self, step: int, run: tuple[int, int]) -> Float[Tensor, "apart w c c"]:
        """Products of pixels by how many columns they lie apart and the column of the upper one."""
        band = torch.zeros(2 * self.kw - 1, self.w, self.c, self.c, dtype=torch.float64)
        for u0, u1, v0, v1 in self.tiles:
            product = self.products[step, run, (u0, u1, v0, v1)]
            grid = product.reshape(u1 - u0, self.c, v1 - v0, self.c)
            for apart in range(1 - self.kw, self.kw):
                offset = u0 - v0 + apart
                first = u0 + max(-offset, 0)
                if first >= u1 or offset >= v1 - v0:
                    continue
                diagonal = grid.diagonal(offset, 0, 2)  # (c, c', column)
                band[apart + self.kw - 1, first : first + diagonal.shape[-1]] = diagonal.permute(2, 0, 1)
        return band
