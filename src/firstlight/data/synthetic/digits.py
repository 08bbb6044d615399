"""Tasks made of real digits: digits somewhere in a frame of noise, and blends of two digits."""

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.data.interventions.placement import noise_frame


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
