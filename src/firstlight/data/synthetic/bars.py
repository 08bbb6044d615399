"""Bars in noise: a sign carried by one row of an otherwise random image."""

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData


def bars_in_noise(
    n: int, *, sigma: float, seed: int, split: str = "train", rows: int = 16, columns: int = 32
) -> ImageData:
    r"""Grey images of noise in which one row is a bar whose sign is the class.

    All pixels are iid with variance :math:`\sigma/d`, d columns; then one uniformly chosen row is replaced
    by :math:`\pm 1/\sqrt d`, of Euclidean length one, so the signal-to-noise ratio of a row is
    :math:`1/\sigma`.

    Parameters
    ----------
    n : int
        Number of images; the paper's release has 500 for training and 500 for testing.
    sigma : float
        The noise level σ.
    seed : int
        Decides everything, together with `split`.
    split : str, default 'train'
        A word that makes training and test images independent under one seed.
    rows : int, default 16
        Height of the images.
    columns : int, default 32
        Width d of the images.

    Examples
    --------
    >>> bars_in_noise(500, sigma=1.0, seed=0).shape
    (1, 16, 32)
    """
    for name, value in (("n", n), ("rows", rows), ("columns", columns)):
        if value < 1:
            raise InvalidInput(f"`{name}` must be at least 1; got {name}={value}.")
    if not (sigma >= 0 and math.isfinite(sigma)):
        raise InvalidInput(f"`sigma` must be finite and at least 0; got sigma={sigma}.")
    generator = generator_from("bars in noise", split, seed)
    x = torch.randn(n, 1, rows, columns, generator=generator) * math.sqrt(sigma / columns)
    y = torch.randint(2, (n,), generator=generator)
    row = torch.randint(rows, (n,), generator=generator)
    x[torch.arange(n), 0, row] = ((2.0 * y - 1) / math.sqrt(columns))[:, None]
    meta = {"name": "bars_in_noise", "split": split, "sigma": sigma, "seed": seed}
    return ImageData(x, y, ("minus", "plus"), meta)


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
