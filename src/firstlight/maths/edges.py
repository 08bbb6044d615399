"""Where an image changes."""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor


def sobel_magnitude(images: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c h w"]:
    """Size of the intensity gradient at each pixel of each channel, by Sobel's filters.

    The border repeats the outermost pixels, so that the frame of an image is no edge.

    Examples
    --------
    >>> sobel_magnitude(torch.arange(3.0).expand(1, 1, 3, 3))[0, 0, 1]
    tensor([4., 8., 4.])
    """
    n, c, h, w = images.shape
    kernel = images.new_tensor([[-1.0, 0.0, 1.0], [-2.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    padded = F.pad(images.reshape(n * c, 1, h, w), (1, 1, 1, 1), mode="replicate")
    across, down = (F.conv2d(padded, k[None, None]) for k in (kernel, kernel.T))
    return torch.hypot(across, down).reshape(n, c, h, w)
