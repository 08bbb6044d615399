"""Flips and shifts: new views of the images of a batch, drawn from the seed and the step alone."""

import torch
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight._internal.shapes import Images


def augmented(images: Images, *, flips: bool, shifts: int, seed: int, step: int) -> Images:
    """Mirror images at random, and move the whole batch by one random displacement.

    Parameters
    ----------
    images : Tensor of shape (n, c, h, w)
        A batch.
    flips : bool
        Whether each image is mirrored left to right with probability one half.
    shifts : int
        Largest displacement in pixels along each axis; what enters at a border is the image reflected there. One
        displacement serves the whole batch: a draw for each image costs as much time as a small convolution, and
        batches of the next epoch meet other displacements anyway.
    seed, step : int
        The same seed and step give the same views, so that a training that was interrupted goes on as it would have.
    """
    if shifts and shifts >= min(images.shape[2:]):
        raise InvalidInput(
            f"`shifts` must be shorter than the sides of the images; got shifts={shifts} for "
            f"{tuple(images.shape)}."
        )
    generator = generator_from("augmentation", seed, step)
    if flips:
        mirrored = torch.rand(len(images), generator=generator) < 0.5
        images = torch.where(mirrored.to(images.device).reshape(-1, 1, 1, 1), images.flip(3), images)
    if shifts:
        down, right = torch.randint(0, 2 * shifts + 1, (2,), generator=generator).tolist()
        height, width = images.shape[2:]
        padded: Tensor = F.pad(images, (shifts,) * 4, mode="reflect")
        images = padded[:, :, down : down + height, right : right + width]
    return images
