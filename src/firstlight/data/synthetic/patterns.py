"""Patterns drawn by rule, at any resolution, to ask a network trained on one image about others.

The paper shows such patterns without defining them; the definitions here are ours.
"""

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


@PATTERNS.register("white")
def _white(canvas: Canvas) -> Tensor:
    return torch.ones(canvas.shape)


@PATTERNS.register("grey")
def _grey(canvas: Canvas) -> Tensor:
    return torch.full(canvas.shape, 0.5)


@PATTERNS.register("black")
def _black(canvas: Canvas) -> Tensor:
    return torch.zeros(canvas.shape)


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


@PATTERNS.register("disc")
def _disc(canvas: Canvas) -> Tensor:
    return canvas.radius <= 0.6


@PATTERNS.register("ring")
def _ring(canvas: Canvas) -> Tensor:
    return (canvas.radius <= 0.7) & (canvas.radius >= 0.45)


@PATTERNS.register("square")
def _square(canvas: Canvas) -> Tensor:
    return ((canvas.down - 0.5).abs() <= 0.25) & ((canvas.right - 0.5).abs() <= 0.25)


@PATTERNS.register("cross")
def _cross(canvas: Canvas) -> Tensor:
    return ((canvas.down - 0.5).abs() <= 0.1) | ((canvas.right - 0.5).abs() <= 0.1)


@PATTERNS.register("gradient_down")
def _gradient_down(canvas: Canvas) -> Tensor:
    return canvas.down.expand(canvas.shape)


@PATTERNS.register("gradient_right")
def _gradient_right(canvas: Canvas) -> Tensor:
    return canvas.right.expand(canvas.shape)


@PATTERNS.register("gradient_diagonal")
def _gradient_diagonal(canvas: Canvas) -> Tensor:
    return (canvas.down + canvas.right) / 2


@PATTERNS.register("pixel")
def _pixel(canvas: Canvas) -> Tensor:
    h, w = canvas.shape
    image = torch.zeros(h, w)
    image[h // 2, w // 2] = 1.0
    return image


@PATTERNS.register("noise")
def _noise(canvas: Canvas) -> Tensor:
    return torch.rand(canvas.shape, generator=generator_from("pattern noise", canvas.seed))
