r"""The two-layer ReLU model with a fixed read-out, at the start of training and, on odd data, for ever.

.. math:: f(x) = a^\top \mathrm{relu}(W x)

with loss :math:`\frac12 \sum_i (f(x_i) - y_i)^2` and *paired* weights, :math:`w_{2i} = -w_{2i-1}`,
:math:`a_{2i} = -a_{2i-1}`.

References
----------
.. [1] PCBias, appendix B.2; the constant of the quadratic term corrected (E-31).
"""

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput


def is_paired(readout: Float[Tensor, " m"], weights: Float[Tensor, "m q"]) -> bool:
    """Whether every second unit is the exact negative of the one before it."""
    even = len(readout) % 2 == 0
    return even and torch.equal(weights[1::2], -weights[::2]) and torch.equal(readout[1::2], -readout[::2])


def linear_map(readout: Float[Tensor, " m"], weights: Float[Tensor, "m q"]) -> Float[Tensor, " q"]:
    r"""The vector v with :math:`f(x) = \langle v, x\rangle`, :math:`v = \frac12 a^\top W`, of a paired model.

    Of every pair exactly one unit is active, so the network is linear off the hyperplanes.
    """
    if not is_paired(readout, weights):
        raise InvalidInput(
            "`weights` and `readout` must be paired; every second unit the negative of the last."
        )
    return readout @ weights / 2


def exact_step(
    readout: Float[Tensor, " m"],
    weights: Float[Tensor, "m q"],
    inputs: Float[Tensor, "n q"],
    targets: Float[Tensor, " n"],
    *,
    rate: float,
) -> Float[Tensor, "m q"]:
    r"""Change of the weights in one step, for any data and any weights.

    .. math:: w_r^+ - w_r = -\mu\, a_r \sum_i 1_r(x_i)\,(f(x_i) - y_i)\, x_i
    """
    before = inputs @ weights.T
    error = before.clamp(min=0) @ readout - targets
    active = (before >= 0).to(weights.dtype) * error[:, None]
    return -rate * readout[:, None] * (active.T @ inputs)


def first_step(
    readout: Float[Tensor, " m"],
    weights: Float[Tensor, "m q"],
    inputs: Float[Tensor, "n q"],
    targets: Float[Tensor, " n"],
    *,
    rate: float,
) -> Float[Tensor, "m q"]:
    r"""The same change in closed form, for paired weights and inputs symmetric about zero.

    .. math:: W^+ - W = -\mu\left[\tfrac14\, a a^\top W \Sigma_{XX} - \hat M\right], \qquad
        \hat M_r = a_r \sum_{i:\, w_r \cdot x_i \ge 0} y_i\, x_i^\top

    Exact when no input lies on a hyperplane. The paper prints ½ where ¼ must stand.
    """
    sxx = inputs.T @ inputs
    active = (inputs @ weights.T >= 0).to(weights.dtype) * targets[:, None]
    drive = readout[:, None] * (active.T @ inputs)
    return -rate * (torch.outer(readout, readout) @ weights @ sxx / 4 - drive)
