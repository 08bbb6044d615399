"""Images at a chosen angle to a given one."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from


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
