"""Bars in noise: a sign carried by one row of an otherwise random image."""

import math

import torch

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
