"""Tasks with noise: bars whose sign is the class, digits somewhere in a frame, and blends of two digits."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions.placement import noise_frame


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
        Noise level; see :func:`firstlight.data.interventions.noise_frame`.
    seed : int
        Decides choice, places and noise.
    side : int, default 42
        Height and width of the frame.
    """
    framed = noise_frame(digits.sample(n, seed=seed), sigma=sigma, seed=seed, side=side)
    return framed.replace(meta={"name": "digits_in_noise", "source": digits.meta.get("name", "")})


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
