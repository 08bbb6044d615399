"""Images drawn by rule, at any resolution, to ask a network trained on one image about others.

Patterns have names; blends and images at an angle are made from given images. Values lie in [0, 1] for patterns.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.registry import Registry
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData


@dataclass(frozen=True, kw_only=True, eq=False)
class Canvas:
    """Pixel centres in the unit square: `down` and `right` from the upper left corner, both in (0, 1)."""

    down: Float[Tensor, "h 1"]
    right: Float[Tensor, "1 w"]
    seed: int

    @property
    def shape(self) -> tuple[int, int]:
        """Height and width in pixels."""
        return self.down.shape[0], self.right.shape[1]

    @property
    def radius(self) -> Float[Tensor, "h w"]:
        """Distance from the centre, where half a side is 1."""
        return 2 * torch.hypot(self.down - 0.5, self.right - 0.5)


Drawing: TypeAlias = Callable[[Canvas], Tensor]
PATTERNS: Registry[Drawing] = Registry("pattern")
"""All patterns by name; each draws an image of a given side."""


def pattern(name: str, h: int, w: int, *, channels: int = 1, seed: int = 0) -> Float[Tensor, "c h w"]:
    """One named pattern with values in [0, 1].

    Parameters
    ----------
    name : str
        One of `PATTERNS`.
    h : int
        Height in pixels.
    w : int
        Width in pixels.
    channels : int, default 1
        The pattern is repeated in each.
    seed : int, default 0
        Decides the pattern called "noise"; no other depends on it.

    Examples
    --------
    >>> pattern("checkerboard_2", 2, 2)[0]
    tensor([[1., 0.],
            [0., 1.]])
    """
    for what, value in (("h", h), ("w", w), ("channels", channels)):
        if value < 1:
            raise InvalidInput(f"`{what}` must be at least 1; got {what}={value}.")
    down, right = ((torch.arange(side, dtype=torch.float64) + 0.5) / side for side in (h, w))
    drawn = PATTERNS[name](Canvas(down=down[:, None], right=right[None, :], seed=seed))
    return drawn.float().expand(h, w).repeat(channels, 1, 1)


def patterns(h: int, w: int, *, channels: int = 1, seed: int = 0) -> ImageData:
    """All patterns, one image each, with their names as classes.

    Apply the normalisation of the training image to them before a network sees them.
    """
    names = tuple(PATTERNS)
    x = torch.stack([pattern(name, h, w, channels=channels, seed=seed) for name in names])
    return ImageData(x, torch.arange(len(names)), names, {"name": "patterns", "seed": seed})


def _bands(position: Tensor, count: int) -> Tensor:
    """Bright and dark bands in turn, `count` of them over the unit length, bright first."""
    # pixel centres on the edge of a band must not fall to either side by rounding
    return (position * count + 1e-9).floor() % 2 == 0


def _pixel(canvas: Canvas) -> Tensor:
    h, w = canvas.shape
    image = torch.zeros(h, w)
    image[h // 2, w // 2] = 1.0
    return image


for _name, _draw in {
    "white": lambda canvas: torch.ones(canvas.shape),
    "grey": lambda canvas: torch.full(canvas.shape, 0.5),
    "black": lambda canvas: torch.zeros(canvas.shape),
    "disc": lambda canvas: canvas.radius <= 0.6,
    "ring": lambda canvas: (canvas.radius <= 0.7) & (canvas.radius >= 0.45),
    "square": lambda canvas: ((canvas.down - 0.5).abs() <= 0.25) & ((canvas.right - 0.5).abs() <= 0.25),
    "cross": lambda canvas: ((canvas.down - 0.5).abs() <= 0.1) | ((canvas.right - 0.5).abs() <= 0.1),
    "gradient_down": lambda canvas: canvas.down.expand(canvas.shape),
    "gradient_right": lambda canvas: canvas.right.expand(canvas.shape),
    "gradient_diagonal": lambda canvas: (canvas.down + canvas.right) / 2,
    "pixel": _pixel,
    "noise": lambda canvas: torch.rand(canvas.shape, generator=generator_from("pattern noise", canvas.seed)),
}.items():
    PATTERNS.add(_name, _draw)


def _register_banded(count: int) -> None:
    PATTERNS.add(f"horizontal_stripes_{count}", lambda canvas: _bands(canvas.down, count))
    PATTERNS.add(f"vertical_stripes_{count}", lambda canvas: _bands(canvas.right, count))
    PATTERNS.add(
        f"diagonal_stripes_{count}", lambda canvas: _bands((canvas.down + canvas.right) / 2, 2 * count)
    )
    PATTERNS.add(
        f"checkerboard_{count}", lambda canvas: _bands(canvas.down, count) == _bands(canvas.right, count)
    )


for _count in (2, 4, 7, 14):  # 7 and 14 divide the side of a digit, 28
    _register_banded(_count)


def digit_blends(
    first: Float[Tensor, "c h w"], second: Float[Tensor, "c h w"], weights: Float[Tensor, " k"]
) -> Float[Tensor, "k c h w"]:
    r"""Linear combinations :math:`(1-w)\,a + w\,b` of two images.

    Examples
    --------
    >>> digit_blends(torch.zeros(1, 1, 1), torch.ones(1, 1, 1), torch.tensor([0.0, 0.25, 1.0])).flatten()
    tensor([0.0000, 0.2500, 1.0000])
    """
    if not (first.isfinite().all() and second.isfinite().all() and weights.isfinite().all()):
        raise InvalidInput("`first`, `second` and `weights` must be finite; got NaN or infinity.")
    return torch.einsum("k,cij->kcij", 1 - weights, first) + torch.einsum("k,cij->kcij", weights, second)


def correlated_images(
    image: Float[Tensor, "c h w"], rhos: Float[Tensor, " r"], *, draws: int = 1, seed: int
) -> Float[Tensor, "r draws c h w"]:
    r"""Random images whose cosine with `image` is exactly ρ and whose norm is that of `image`.

    .. math:: x_\rho = \rho\,\hat x + \sqrt{1-\rho^2}\;\|\hat x\|\; g_\perp / \|g_\perp\|

    with g a Gaussian image and :math:`g_\perp` its part orthogonal to :math:`\hat x`. This is the paper's
    :math:`g + \alpha\hat x`, rescaled, written without its division by :math:`\sqrt{1-\rho^2}`. Draw k
    takes the same g at every ρ, so that a curve over ρ is followed along one path.

    Parameters
    ----------
    image : Tensor of shape (c, h, w)
        The training image, as the network sees it.
    rhos : Tensor of shape (r,)
        Cosines in [-1, 1].
    draws : int, default 1
        Images per cosine.
    seed : int
        Decides the draws.

    Returns
    -------
    Tensor of shape (r, draws, c, h, w)
        In float64, where cosine and norm hold to 1e-12.
    """
    exact, grid = image.double().flatten(), rhos.double()
    norm = float(torch.linalg.vector_norm(exact))
    if not (math.isfinite(norm) and norm > 0):
        raise InvalidInput(f"`image` must be finite and not zero to have an angle; its norm is {norm}.")
    if not (grid.abs() <= 1).all():
        raise InvalidInput(f"`rhos` must lie in [-1, 1]; got {grid.tolist()}.")
    if draws < 1:
        raise InvalidInput(f"`draws` must be at least 1; got draws={draws}.")
    if len(exact) == 1 and (grid.abs() < 1).any():
        raise InvalidInput("`image` must have at least 2 pixels: a single number has no other directions.")
    unit = exact / norm
    across = torch.randn(
        draws, len(exact), generator=generator_from("correlated images", seed), dtype=torch.float64
    )
    for _ in range(2):  # once leaves a rounding error of the part removed
        across = across - (across @ unit)[:, None] * unit
        across = across / torch.linalg.vector_norm(across, dim=1, keepdim=True).clamp(min=1e-300)
    sines = ((1 - grid) * (1 + grid)).sqrt()
    images = grid[:, None, None] * exact + norm * sines[:, None, None] * across
    return images.reshape(len(grid), draws, *image.shape)
