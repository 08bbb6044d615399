"""A test split for images that come without one."""

import torch
from jaxtyping import Int64
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from


def held_out(
    y: Int64[Tensor, " n"], *, n_classes: int, share: float, seed: int
) -> tuple[Int64[Tensor, " kept"], Int64[Tensor, " held"]]:
    """Indices of the training images and of the images held out, in the order of the images.

    If a class has at least two images, at least one is held out and at least one is kept.

    Parameters
    ----------
    y : int64 Tensor of shape (n,)
        Class index of every image.
    n_classes : int
        Number of classes.
    share : float
        Share of every class to hold out, between 0 and 1.
    seed : int
        Seed of the draw.

    Examples
    --------
    >>> kept, held = held_out(torch.tensor([0] * 10 + [1] * 5), n_classes=2, share=0.2, seed=0)
    >>> len(kept), len(held)
    (12, 3)
    """
    if not 0 < share < 1:
        raise InvalidInput(f"`share` must lie between 0 and 1; got share={share}.")
    generator = generator_from("held out", seed)
    is_held = torch.zeros(len(y), dtype=torch.bool)
    for label in range(n_classes):
        members = (y == label).nonzero().flatten()
        order = torch.randperm(len(members), generator=generator)
        count = min(max(1, round(share * len(members))), len(members) - 1)
        is_held[members[order[: max(count, 0)]]] = True
    if not is_held.any():
        raise InvalidInput(
            "A test split needs at least two images of some class; every class has one. Add images."
        )
    return (~is_held).nonzero().flatten(), is_held.nonzero().flatten()
