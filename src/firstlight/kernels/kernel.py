"""What a convolutional kernel is, in one small expression."""

import math
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight.maths.patches import PatchGeometry

READOUTS = ("flatten", "gap")
KINDS = ("ntk", "nngp")
PROFILES = ("laplace", "gaussian")


@dataclass(frozen=True, kw_only=True)
class ConvKernel:
    r"""Kernel of an infinitely wide ReLU convolutional network.

    .. math::
        \Lambda^\ell[p,p'] &= \sigma_b^2 + \tfrac{\sigma_w^2}{q^2} \sum_\delta
            \Sigma^{\ell-1}[p+\delta, p'+\delta] \\
        \Sigma^\ell &= \sqrt{\Lambda^\ell(x,x)\Lambda^\ell(z,z)}\,\kappa_1(\rho), \qquad
        T^\ell = \kappa_0(\rho)\big(\Lambda^\ell + \tfrac{\sigma_w^2}{q^2} \sum_\delta T^{\ell-1}\big)

    with :math:`\Sigma^0 = \langle x[:,p], z[:,p']\rangle / c`, and the mean over positions of
    :math:`\Sigma^L` (nngp) or :math:`\Sigma^L + T^L` (ntk) as value. A metric M replaces the inner product of
    first-layer patches by :math:`x[p]^\top M z[p']`.

    Parameters
    ----------
    depth : int, default 3
        Number L of convolutions, each followed by the variance-preserving ReLU.
    size : int, default 3
        Side q of every filter.
    readout : str, default 'flatten'
        "flatten" compares equal positions only; "gap" (global average pooling) all pairs of them.
    padding : int, default 0
        Rows and columns of zeros on either side, in every layer; at most (size - 1) / 2.
    stride : int, default 1
        Stride of the first layer.
    bias_variance : float, default 0.0
        :math:`\sigma_b^2`.
    weight_variance : float, optional
        :math:`\sigma_w^2`; None is size², as in the published code, so sums are plain sums.
    kind : str, default 'ntk'
        "ntk" or "nngp".
    pooling : tuple of int, default ()
        Layers, counted from 1, that average pooling over windows of 2 x 2 follows (a last odd row or column is left
        out); with the readout "gap" only. A pair of images then takes all pairs of positions at once, and there
        are no gradients.

    References
    ----------
    .. [1] CNFA, section 3.1 (with the square that the printed dual activation lacks), and the
       normalisation of its code.

    Examples
    --------
    >>> ConvKernel(depth=3).layer_sizes(32, 32)
    ((30, 30), (28, 28), (26, 26))
    """

    depth: int = 3
    size: int = 3
    readout: str = "flatten"
    padding: int = 0
    stride: int = 1
    bias_variance: float = 0.0
    weight_variance: float | None = None
    kind: str = "ntk"
    pooling: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        for name, least in (("depth", 1), ("size", 1), ("stride", 1), ("padding", 0)):
            if getattr(self, name) < least:
                raise InvalidInput(f"`{name}` must be at least {least}; got {name}={getattr(self, name)}.")
        if 2 * self.padding > self.size - 1:
            raise InvalidInput(
                f"`padding` must be at most (size - 1) / 2 = {(self.size - 1) / 2:g}, so that no layer grows; "
                f"got padding={self.padding}."
            )
        for name, value in (("bias_variance", self.bias_variance), ("weight_variance", self.scale)):
            if not (math.isfinite(value) and value >= 0):
                raise InvalidInput(f"`{name}` must be finite and not negative; got {name}={value}.")
        if self.readout not in READOUTS:
            raise unknown_name("readout", self.readout, READOUTS)
        if self.kind not in KINDS:
            raise unknown_name("kind of kernel", self.kind, KINDS)
        if self.pooling and self.readout != "gap":
            raise InvalidInput(
                f"`readout` must be 'gap' for a kernel with pooling between its layers; got {self.readout!r}."
            )
        if any(not 1 <= layer < self.depth for layer in self.pooling) or any(
            a >= b for a, b in pairwise(self.pooling)
        ):
            raise InvalidInput(
                f"`pooling` must name layers from 1 to {self.depth - 1} (depth - 1) in increasing order; the readout "
                f"pools the last. Got pooling={self.pooling}."
            )

    @classmethod
    def myrtle5(cls, kind: str = "ntk") -> "ConvKernel":
        """Kernel of the Myrtle-5 network: four padded convolutions, pooling after the second and third, then over all.

        References
        ----------
        .. [1] Shankar et al., Neural Kernels Without Tangents, ICML 2020. Their pooling after the fourth convolution is
           part of the mean over all positions.

        Examples
        --------
        >>> ConvKernel.myrtle5().layer_sizes(32, 32)
        ((32, 32), (32, 32), (16, 16), (8, 8))
        """
        return cls(depth=4, padding=1, readout="gap", pooling=(2, 3), kind=kind)

    @property
    def scale(self) -> float:
        """Factor of the sums over filter offsets, σ_w² / q²."""
        return 1.0 if self.weight_variance is None else self.weight_variance / self.size**2

    @property
    def geometry(self) -> PatchGeometry:
        """Patches of the first layer."""
        return PatchGeometry.square(self.size, stride=self.stride, padding=self.padding)

    def layer_sizes(self, h: int, w: int) -> tuple[tuple[int, int], ...]:
        """Rows and columns of positions of every layer, for images of `h` by `w` pixels."""
        rows, columns = self.geometry.positions(h, w)
        sizes = [(rows, columns)]
        for layer in range(1, self.depth):
            # every further layer has stride 1 and loses q − 1 positions, less what is padded
            shrink = self.size - 1 - 2 * self.padding
            # rows that do not fill a window are left out, as by torch
            if layer in self.pooling:
                rows, columns = rows // 2, columns // 2
            empty = rows < 1 or columns < 1
            rows, columns = rows - shrink, columns - shrink
            if empty or rows < 1 or columns < 1:
                raise InvalidInput(
                    f"`depth` must be at most {layer} for images of {h} x {w} and filters of size {self.size} "
                    f"without padding; got depth={self.depth}. Use fewer layers or `padding`."
                )
            sizes.append((rows, columns))
        return tuple(sizes)

    def patch_scale(self, channels: int) -> float:
        """Factor of the inner products of first-layer patches."""
        return self.scale / channels


@dataclass(frozen=True, kw_only=True)
class PatchKernel:
    r"""Laplace or Gaussian kernel on patches, averaged over equal positions.

    .. math::
        K(x,z) = \frac1{|S|} \sum_p e^{-r_p/\gamma} \quad\text{or}\quad
        \frac1{|S|} \sum_p e^{-r_p^2/(2\gamma^2)}, \qquad
        r_p^2 = (x[p]-z[p])^\top M\,(x[p]-z[p])

    Parameters
    ----------
    profile : str, default 'laplace'
        "laplace" or "gaussian".
    size, padding, stride : int
        Geometry of the patches.
    bandwidth : float, default 1.0
        γ. The papers give none; :func:`median_bandwidth` is the usual start.

    References
    ----------
    .. [1] CNFA, section 3.1; its training code for this kernel was not published.
    """

    profile: str = "laplace"
    size: int = 3
    padding: int = 0
    stride: int = 1
    bandwidth: float = 1.0

    def __post_init__(self) -> None:
        if self.profile not in PROFILES:
            raise unknown_name("profile of a patch kernel", self.profile, PROFILES)
        if not (math.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise InvalidInput(f"`bandwidth` must be positive and finite; got bandwidth={self.bandwidth}.")
        self.geometry  # noqa: B018  (refuses a size, stride or padding that makes no sense)

    @property
    def geometry(self) -> PatchGeometry:
        """Patches that are compared."""
        return PatchGeometry.square(self.size, stride=self.stride, padding=self.padding)

    def layer_sizes(self, h: int, w: int) -> tuple[tuple[int, int], ...]:
        """Rows and columns of positions."""
        return (self.geometry.positions(h, w),)

    def patch_scale(self, channels: int) -> float:
        """Distances are taken as they are."""
        return 1.0


Kernel = ConvKernel | PatchKernel
"""Any kernel on images: ``ConvKernel | PatchKernel``."""


def check_metric(metric: Float[Tensor, "d d"] | None, kernel: Kernel, channels: int) -> None:
    """Refuse a metric that does not fit the patches; its definiteness is checked when its root is taken."""
    d = kernel.geometry.dimension(channels)
    if metric is not None and tuple(metric.shape) != (d, d):
        raise InvalidInput(
            f"`metric` must be {d} x {d}, the size of a patch of {channels} channels; "
            f"got {tuple(metric.shape)}."
        )


def check_gradients(kernel: Kernel) -> None:
    """Refuse a kernel that has no gradients."""
    if isinstance(kernel, ConvKernel) and kernel.pooling:
        raise InvalidInput(
            "`kernel` must have no pooling between its layers where gradients are taken: the way back would hold every "
            f"pair of positions of every layer. Got pooling={kernel.pooling}; learn the metric with pooling=() and use "
            "`kernel_gram(..., metric=...)`, or take rounds=0."
        )


def kernel_from(config: dict[str, object]) -> Kernel:
    """Rebuild a kernel from its settings, as `dataclasses.asdict` gives them."""
    if "profile" in config:
        return PatchKernel(**config)  # type: ignore[arg-type]
    layers: Any = config.get("pooling", ())
    return ConvKernel(**{**config, "pooling": tuple(layers)})  # type: ignore[arg-type]  # a file has a list


def median_bandwidth(
    images: Float[Tensor, "n c h w"], geometry: PatchGeometry, *, pairs: int = 4000, seed: int = 0
) -> float:
    """Median distance of two patches of different images at one position, from random pairs.

    Examples
    --------
    >>> images = torch.stack([torch.zeros(1, 4, 4), torch.ones(1, 4, 4)])
    >>> median_bandwidth(images, PatchGeometry.square(2))
    2.0
    """
    from firstlight._internal.seeds import generator_from
    from firstlight.maths.patches import extract_patches

    if len(images) < 2:
        raise InvalidInput(f"`images` must hold at least 2; got {len(images)}.")
    # a median of thousands of distances does not need more, and all patches of all images would not fit
    few = images[: min(len(images), 200)].double()
    patches = extract_patches(few, geometry)
    generator = generator_from("bandwidth", seed)
    first = torch.randint(len(few), (pairs,), generator=generator)
    # a shift by 1 .. n − 1 never pairs an image with itself
    second = (first + torch.randint(1, len(few), (pairs,), generator=generator)) % len(few)
    place = torch.randint(patches.shape[1], (pairs,), generator=generator)
    distances = (patches[first, place] - patches[second, place]).norm(dim=1)
    distances = distances[distances > 0]
    return float(distances.median()) if len(distances) else 1.0
