"""The frequency task: points below or above a curve of ten sinusoids, and how many of them decide each point."""

import math
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData

FREQUENCIES = (0, 1, 2, 3, 4, 5, 6, 7, 8, 9)
"""Frequencies of the sinusoids, in the order in which they are added."""
PHASES = (0.0, 3.46, 5.08, 0.45, 2.10, 1.4, 5.36, 0.85, 5.9, 5.16)
"""Their phases, as published."""


def partial_sums(z: Float[Tensor, " n"]) -> Float[Tensor, "n 10"]:
    r"""Column k holds the curve up to its k-th frequency, in float64.

    .. math:: \lambda_k(z) = \sum_{i=0}^{k} \sin(2\pi \kappa_i z + \varphi_i), \qquad \kappa_i = i

    The first column is zero, since frequency and phase of the first term are; the last is the whole curve.
    """
    angles = 2 * math.pi * z.double()[:, None] * torch.tensor(FREQUENCIES).double()
    return (angles + torch.tensor(PHASES, dtype=torch.float64)).sin().cumsum(1)


def frequency_curve(z: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """The whole curve λ(z), the border between the classes."""
    return partial_sums(z)[:, -1]


def frequency_points(
    n: int, *, seed: int, split: str = "train"
) -> tuple[Float[Tensor, "n 2"], Int[Tensor, " n"]]:
    r"""Points (z, v) with the label :math:`1[v \le \lambda(z)]`, uniform over [-1, 1] × [-2π, 2π].

    The paper's text thresholds λ(z) at zero and thereby ignores v; its pictures and its critical frequency
    only make sense for points below or above the curve, which is what we take.

    Parameters
    ----------
    n : int
        Number of points; 10 000 for training and 1 000 for testing in the paper.
    seed : int
        Decides the points, together with `split`.
    split : str, default 'train'
        A word that makes training and test points independent under one seed.
    """
    if n < 1:
        raise InvalidInput(f"`n` must be at least 1; got n={n}.")
    uniform = torch.rand(n, 2, generator=generator_from("frequency", split, seed), dtype=torch.float64)
    # rounded first: the labels must be right for the points as they are stored
    points = ((2 * uniform - 1) * torch.tensor([1.0, 2 * math.pi], dtype=torch.float64)).float()
    labels = (points[:, 1].double() <= frequency_curve(points[:, 0])).long()
    return points, labels


def frequency_data(n: int, *, seed: int, split: str = "train") -> ImageData:
    """The same points as images of two channels and one pixel, for networks of 1 × 1 convolutions."""
    points, labels = frequency_points(n, seed=seed, split=split)
    meta = {"name": "frequency", "split": split, "seed": seed}
    return ImageData(points[:, :, None, None], labels, ("above", "below"), meta)


def critical_frequency(
    points: Float[Tensor, "n 2"], *, reading: Literal["first", "stable"] = "first"
) -> Int[Tensor, " n"]:
    r"""Index, from 0, of the sinusoid with which the partial sum first gives the right label.

    .. math:: \min\{\, j : 1[v \le \lambda_j(z)] = 1[v \le \lambda(z)] \,\}

    Parameters
    ----------
    points : Tensor of shape (n, 2)
        (z, v), as :func:`frequency_points` draws them.
    reading : {'first', 'stable'}, default 'first'
        "first", as the paper words it, or "stable": right from there on.

    Examples
    --------
    >>> points = torch.tensor([[0.3, 9.0], [-0.6345, -0.7938]])  # the first lies above all sums
    >>> critical_frequency(points), critical_frequency(points, reading="stable")
    (tensor([0, 4]), tensor([0, 7]))
    """
    if points.ndim != 2 or points.shape[1] != 2 or not points.isfinite().all():
        raise InvalidInput(f"`points` must be finite pairs (z, v); got the shape {tuple(points.shape)}.")
    if reading not in ("first", "stable"):
        raise InvalidInput(f"`reading` must be 'first' or 'stable'; got reading={reading!r}.")
    sums = partial_sums(points[:, 0])
    below = points[:, 1].double()[:, None] <= sums
    right = below == below[:, -1:]
    if reading == "first":
        return right.to(torch.uint8).argmax(1)
    wrong = (~right).flip(1)
    return torch.where(wrong.any(1), right.shape[1] - wrong.to(torch.uint8).argmax(1), 0)
