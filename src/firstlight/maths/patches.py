"""The one patch extractor: which pixels a convolution sees at each of its positions."""

from dataclasses import dataclass

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
    across, down = (F.conv2d(padded, k[None, None]) for k in (kernel, kernel.T))
    return torch.hypot(across, down).reshape(n, c, h, w)
