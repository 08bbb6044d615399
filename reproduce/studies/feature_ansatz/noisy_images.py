"""Tasks with noise: bars whose sign is the class, and digits somewhere in a frame."""

import math

import torch

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions import noted


def noise_frame(data: ImageData, *, sigma: float, seed: int, side: int = 42) -> ImageData:
    r"""Paste every image at a random place of a larger frame of noise.

    The frame is iid :math:`N(0, (0.5\sqrt\sigma)^2)`; the image overwrites it. Offsets are uniform over
    ``0 .. side - h - 1``: as in the published data, the last possible one is never used.

    Parameters
    ----------
    data : ImageData
        Images smaller than the frame.
    sigma : float
        The noise level σ.
    seed : int
        Decides noise and places.
    side : int, default 42
        Height and width of the frame.
    """
    c, h, w = data.shape
    if side < max(h, w):
        raise InvalidInput(f"`side` must be at least the side of the images, {max(h, w)}; got side={side}.")
    if not (sigma >= 0 and math.isfinite(sigma)):
        raise InvalidInput(f"`sigma` must be finite and at least 0; got sigma={sigma}.")
    generator = generator_from("noise frame", seed)
    x = torch.randn(len(data), c, side, side, generator=generator, dtype=data.x.dtype)
    x *= 0.5 * math.sqrt(sigma)
    tops = torch.randint(max(side - h, 1), (len(data),), generator=generator)
    lefts = torch.randint(max(side - w, 1), (len(data),), generator=generator)
    image = torch.arange(len(data))[:, None, None, None]
    channel = torch.arange(c)[:, None, None]
    rows = tops[:, None, None, None] + torch.arange(h)[:, None]
    columns = lefts[:, None, None, None] + torch.arange(w)
    x[image, channel, rows, columns] = data.x
    return data.replace(x=x, meta=noted(data, "noise_frame", sigma=sigma, side=side, seed=seed))


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


def digits_in_noise(digits: ImageData, n: int, *, sigma: float, seed: int, side: int = 42) -> ImageData:
    """`n` of the given digits, evenly over the classes, each at a random place of a frame of noise.

    Parameters
    ----------
    digits : ImageData
        Images in [0, 1], 28 × 28 in the paper; give the training and the test split in turn.
    n : int
        Number of images; the paper's release has 2000 of each split.
    sigma : float
        Noise level; see :func:`noise_frame`.
    seed : int
        Decides choice, places and noise.
    side : int, default 42
        Height and width of the frame.
    """
    framed = noise_frame(digits.sample(n, seed=seed), sigma=sigma, seed=seed, side=side)
    return framed.replace(meta={"name": "digits_in_noise", "source": digits.meta.get("name", "")})
