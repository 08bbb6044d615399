"""How many sinusoids a point of the frequency data set needs."""

from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.data.synthetic.frequency import partial_sums


def critical_frequency(
    points: Float[Tensor, "n 2"], *, reading: Literal["first", "stable"] = "first"
) -> Int[Tensor, " n"]:
    r"""Index, from 0, of the sinusoid with which the partial sum first gives the right label.

    .. math:: \min\{\, j : 1[v \le \lambda_j(z)] = 1[v \le \lambda(z)] \,\}

    Parameters
    ----------
    points : Tensor of shape (n, 2)
        (z, v), as :func:`firstlight.data.synthetic.frequency.frequency_points` draws them.
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
