"""One step of gradient descent from zero: where feature matrix and gradients are exactly proportional."""

from jaxtyping import Float
from torch import Tensor


def one_step_filters(
    slope: Float[Tensor, " k"], patches: Float[Tensor, "n m d"], targets: Float[Tensor, " n"], *, lr: float
) -> Float[Tensor, "k d"]:
    r"""Filters after one full-batch step on :math:`\tfrac12\sum_p (y_p - f(v^{(p)}))^2` from W = 0.

    .. math:: W(1) = \eta\, \Gamma s^\top, \qquad s = \sum_p y_p \sum_\ell v^{(p)}_\ell

    for :math:`f(v) = g(W v_1, \dots, W v_m)` with g(0) = 0 and the same slope :math:`\Gamma` of g at 0 in
    every patch. The result has rank one, so every patch gradient is a multiple of s, and the feature matrix
    is proportional to the gradient outer product at any point.

    Parameters
    ----------
    slope : Tensor of shape (k,)
        Γ, the derivative of g at zero with respect to the outputs of one patch.
    patches : Tensor of shape (n, m, d)
        Patches of every example.
    targets : Tensor of shape (n,)
        One per example.
    lr : float
        Step size η.

    References
    ----------
    .. [1] CNFA, Theorem 1; the factors of its printed proof are wrong (E-48).
    """
    direction = (targets[:, None] * patches.sum(1)).sum(0)
    return lr * slope[:, None] * direction[None]
