"""The one patch extractor: which pixels a convolution sees at each of its positions, and their covariance."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Protocol

import torch
import torch.nn.functional as F
from jaxtyping import Float, Num
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput

Pair = tuple[int, int]


@dataclass(frozen=True, kw_only=True)
class PatchGeometry:
    """Window of a convolution, each entry a pair (rows, columns).

    Parameters
    ----------
    size : Pair
        Height and width of the patch.
    stride : Pair, default (1, 1)
        Step between neighbouring positions.
    padding : Pair, default (0, 0)
        Rows and columns of zeros on either side of the image.
    dilation : Pair, default (1, 1)
        Step between neighbouring pixels of one patch.

    Examples
    --------
    >>> PatchGeometry.square(3, padding=1).positions(32, 32)
    (32, 32)
    """

    size: Pair
    stride: Pair = (1, 1)
    padding: Pair = (0, 0)
    dilation: Pair = (1, 1)

    def __post_init__(self) -> None:
        for name, least in (("size", 1), ("stride", 1), ("padding", 0), ("dilation", 1)):
            value = getattr(self, name)
            if min(value) < least:
                raise InvalidInput(f"`{name}` must be at least {least} along both axes; got {name}={value}.")

    @classmethod
    def square(cls, size: int, *, stride: int = 1, padding: int = 0, dilation: int = 1) -> "PatchGeometry":
        """Geometry that is the same along rows and columns."""
        return cls(
            size=(size, size),
            stride=(stride, stride),
            padding=(padding, padding),
            dilation=(dilation, dilation),
        )

    @classmethod
    def of(cls, conv: nn.Conv2d) -> "PatchGeometry":
        """Geometry of a convolution layer.

        With groups, the patch of a filter is the group's share of the channels of this window.
        """
        size, stride, dilation = _pair(conv.kernel_size), _pair(conv.stride), _pair(conv.dilation)
        if conv.padding == "valid":
            padding = (0, 0)
        elif conv.padding == "same":
            total = [d * (k - 1) for k, d in zip(size, dilation, strict=True)]
            if any(t % 2 for t in total):
                raise InvalidInput(
                    f"padding='same' with kernel size {size} pads one side more than the other; "
                    "that is not representable. Give the padding as numbers."
                )
            padding = (total[0] // 2, total[1] // 2)
        else:
            assert not isinstance(conv.padding, str)
            padding = _pair(conv.padding)
        if any(padding) and conv.padding_mode != "zeros":
            raise InvalidInput(
                f"`padding_mode` must be 'zeros' where padding is {padding}; got {conv.padding_mode!r}. "
                "Pad the images yourself and use a layer without padding."
            )
        return cls(size=size, stride=stride, padding=padding, dilation=dilation)

    @property
    def is_dense(self) -> bool:
        """Whether neighbouring positions and neighbouring patch pixels are neighbouring image pixels."""
        return self.stride == (1, 1) and self.dilation == (1, 1)

    def positions(self, h: int, w: int) -> Pair:
        """Number of positions along rows and columns of an image of `h` by `w` pixels."""
        # ⌊(length + 2 padding − extent) / stride⌋ + 1, as for the convolution
        counts = [self._count(axis, length) for axis, length in enumerate((h, w))]
        return counts[0], counts[1]

    def dimension(self, channels: int) -> int:
        """Length of a vectorised patch."""
        return channels * self.size[0] * self.size[1]

    def _count(self, axis: int, length: int) -> int:
        size, dilation, padding = self.size[axis], self.dilation[axis], self.padding[axis]
        extent, available = dilation * (size - 1) + 1, length + 2 * padding
        if extent > available:
            side = ("height", "width")[axis]
            spread = f" (which spans {extent} with dilation={dilation})" if dilation > 1 else ""
            padded = f" + 2 * padding={padding}" if padding else ""
            raise InvalidInput(
                f"`size` must be at most the {side} of the images, {length}{padded}; "
                f"got size={size}{spread}. Pad the images or choose a smaller `size`."
            )
        return (available - extent) // self.stride[axis] + 1


def extract_patches(images: Num[Tensor, "n c h w"], geometry: PatchGeometry) -> Num[Tensor, "n p d"]:
    r"""Every patch of every image, vectorised in the order (channel, row, column).

    The order is that of ``F.unfold`` and of ``conv.weight.flatten(1)``, so for a layer without bias

    .. math:: \mathrm{conv}(x)_{k,p} = \langle W_k, x[p] \rangle .

    Positions run row by row; whole-number pixels become the default float type. Needs patch area over stride
    area times the memory of the images: prefer :func:`mean_patches` and
    :func:`firstlight.maths.pca.patch_pca`, which never build the patches.

    Examples
    --------
    >>> image = torch.arange(9.0).reshape(1, 1, 3, 3)
    >>> extract_patches(image, PatchGeometry.square(2))[0, 0]
    tensor([0., 1., 3., 4.])
    """
    check_images(images)
    geometry.positions(*images.shape[2:])
    pixels = images if images.is_floating_point() else images.to(torch.get_default_dtype())
    # n, (c, row, column), positions; the transpose is a view
    columns = F.unfold(pixels, geometry.size, geometry.dilation, geometry.padding, geometry.stride)
    return columns.transpose(1, 2)


def mean_patches(images: Num[Tensor, "n c h w"], geometry: PatchGeometry) -> Float[Tensor, "n d"]:
    r"""Average patch of every image: the matrix K of the linear-network theory, in pixel coordinates.

    .. math:: K_i = \frac{1}{|S|} \sum_{p \in S} x_i[p]

    Entry (row `a`, column `b`) of the average patch is a sum of pixels over a grid of rows times a grid of
    columns, so two small matrices that mark those rows and columns do the whole sum,
    :math:`K_i = R\,x_i\,C^\top / |S|`, for any stride, padding and dilation. Padding needs no copy: rows
    outside the image have no mark.

    Returns
    -------
    Tensor of shape (n, d)
        Always float64, in the order (channel, row, column). Cost O(n c h w k) for patches of width k.
    """
    check_images(images, finite=False)
    h, w = images.shape[2:]
    rows, columns = geometry.positions(h, w)
    # entry (a, r) counts the positions at which row a of the patch lies on row r of the image
    mark_rows = _marks(geometry, 0, h, rows).to(images.device)
    mark_columns = _marks(geometry, 1, w, columns).to(images.device)
    size = max(1, _BLOCK_ELEMENTS // max(images[0].numel(), 1))
    parts = (images[start : start + size] for start in range(0, len(images), size))
    # x → R x Cᵀ: all positions at once, in 2k products instead of k² windows
    sums = [(mark_rows @ (part.double() @ mark_columns.T)).flatten(1) for part in parts]
    means = torch.cat(sums) / (rows * columns)
    if not means.isfinite().all():
        raise InvalidInput("`images` holds NaN or infinite pixels. Remove or repair those images first.")
    return means


def check_images(images: Tensor, *, finite: bool = True) -> None:
    """Refuse what is not a batch of images of finite pixels."""
    if images.ndim != 4 or images.numel() == 0:
        raise InvalidInput(
            f"`images` must have the shape n c h w, none of them 0; got {tuple(images.shape)}."
        )
    if finite and not images.isfinite().all():
        raise InvalidInput("`images` holds NaN or infinite pixels. Remove or repair those images first.")


_BLOCK_ELEMENTS = 1 << 21  # 16 MB of float64 at a time


def _marks(geometry: PatchGeometry, axis: int, length: int, count: int) -> Float[Tensor, "k length"]:
    """How often patch entry `a` lies on pixel `r` as the window takes all its positions."""
    marks = torch.zeros(geometry.size[axis], length, dtype=torch.float64)
    starts = torch.arange(count) * geometry.stride[axis] - geometry.padding[axis]
    for entry in range(geometry.size[axis]):
        pixels = starts + entry * geometry.dilation[axis]
        marks[entry, pixels[(pixels >= 0) & (pixels < length)]] = 1.0
    return marks


def _pair(value: tuple[int, ...]) -> Pair:
    rows, columns = value
    return rows, columns


def sobel_magnitude(images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Size of the intensity gradient at each pixel of each channel, by Sobel's filters.

    The border repeats the outermost pixels, so that the frame of an image is no edge.

    Examples
    --------
    >>> sobel_magnitude(torch.arange(3.0).expand(1, 1, 3, 3))[0, 0, 1]
    tensor([4., 8., 4.])
    """
    n, c, h, w = images.shape
    kernel = images.new_tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    padded = F.pad(images.reshape(n * c, 1, h, w), (1, 1, 1, 1), mode="replicate")
    horizontal, vertical = (F.conv2d(padded, k[None, None]) for k in (kernel, kernel.T))
    return torch.hypot(horizontal, vertical).reshape(n, c, h, w)


BLOCK_ELEMENTS = 1 << 18  # numbers in a block of images: 2 MB of float64, what a core has near
UNFOLDED_ELEMENTS = 1 << 22  # numbers in a block of unfolded patches
TILE_NUMBERS = 48  # columns of a tile times channels; flat optimum between 32 and 96


@dataclass(frozen=True, kw_only=True)
class PatchMoments:
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
) -> PatchMoments:
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
    running = RunningMoments(geometry)
    for part in image_blocks(images, block=block):
        running.add(part)
    return running.moments()


class RunningMoments:
    """The sums behind :func:`patch_moments`, block by block."""

    def __init__(self, geometry: PatchGeometry) -> None:
        self.geometry = geometry
        self.bare = PatchGeometry(size=geometry.size, stride=geometry.stride, dilation=geometry.dilation)
        self.n_images = 0
        self._products: _Accumulator | None = None

    def add(self, images: Tensor) -> None:
        """Add the patches of a block of images, all of one size."""
        padded = _padded(images, self.geometry)
        if self._products is None:
            self.positions = self.geometry.positions(*images.shape[2:])
            self.shift = padded.mean((0, 2, 3), keepdim=True)
            kind = _RowProducts if self.bare.is_dense else _Unfolded
            self._products = kind(padded.shape, self.bare)
            self.image_sum = torch.zeros(padded.shape[1:], dtype=torch.float64)
        padded -= self.shift
        self._products.add(padded)
        self.image_sum += padded.sum(0)
        self.n_images += len(images)

    def moments(self) -> PatchMoments:
        """Mean and covariance of the patches so far."""
        if self._products is None:
            raise InvalidInput("`images` must hold at least one block of images; got an empty iterable.")
        n_vectors = self.n_images * self.positions[0] * self.positions[1]
        # taking patches and averaging commute
        mean = mean_patches(self.image_sum[None] / self.n_images, self.bare)[0]
        covariance = self._products.total() / n_vectors - torch.outer(mean, mean)
        offset = self.shift.flatten().repeat_interleave(self.bare.size[0] * self.bare.size[1])
        return PatchMoments(
            mean=mean + offset,
            covariance=(covariance + covariance.T) / 2,
            n_vectors=n_vectors,
            n_images=self.n_images,
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
