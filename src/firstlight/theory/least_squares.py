"""Gradient descent on least squares, at any time, without iterating.

For the loss ``1/2 |K w - y|^2`` every coordinate in the eigenbasis of ``G = K^T K`` moves on its own. All
functions take the time as `rate` and `steps`; `rate` is the effective step size, see
:func:`firstlight.theory.linear_cnn.effective_rate`.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result


@dataclass(frozen=True, kw_only=True)
class Spectrum(Result):
    r"""Eigenpairs :math:`(\lambda_k, v_k)` of :math:`G = K^\top K`, exactly zero beyond the rank of K.

    Parameters
    ----------
    values : Tensor of shape (d,)
        Eigenvalues, descending.
    vectors : Tensor of shape (d, d)
        One eigenvector per column, a full orthonormal basis.
    left : Tensor of shape (n, r)
        Left singular vectors of K, one column per non-zero eigenvalue.
    """

    values: Float[Tensor, " d"]
    vectors: Float[Tensor, "d d"]
    left: Float[Tensor, "n r"]

    @property
    def rank(self) -> int:
        """Number of non-zero eigenvalues."""
        return self.left.shape[1]

    @property
    def largest(self) -> float:
        """The largest eigenvalue, which bounds the stable rates: rate * largest < 2."""
        return float(self.values[0])

    def moment(self, y: Float[Tensor, "n *outputs"]) -> Float[Tensor, "d *outputs"]:
        r"""Coordinates of :math:`K^\top y` in the eigenbasis; exactly zero outside the range of G."""
        full = y.new_zeros((len(self.values), *y.shape[1:]))
        singular = self.values[: self.rank].sqrt()
        full[: self.rank] = (self.left.mT @ y) * singular.reshape(-1, *[1] * (y.ndim - 1))
        return full

    def apply(
        self, function: Float[Tensor, " d"], vector: Float[Tensor, "d *outputs"]
    ) -> Float[Tensor, "d *outputs"]:
        """Apply the matrix with these eigenvalues to a vector given in the original coordinates."""
        return self.vectors @ (function.reshape(-1, *[1] * (vector.ndim - 1)) * (self.vectors.mT @ vector))

    def matrix(self, function: Float[Tensor, " d"]) -> Float[Tensor, "d d"]:
        """The matrix with these eigenvalues."""
        return (self.vectors * function) @ self.vectors.mT


def spectrum(patches: Float[Tensor, "n d"]) -> Spectrum:
    r"""Decompose G through the singular values of K, in float64.

    Squaring K first would lose every eigenvalue below ``1e-16`` of the largest; this keeps those down to
    about ``1e-30``. Cost O(n d^2).

    Parameters
    ----------
    patches : Tensor of shape (n, d)
        K, one average patch per row. Singular values below ``max(n, d) * eps`` of the largest count as zero.
    """
    if not patches.isfinite().all():
        raise InvalidInput("`patches` holds NaN or infinite values. Remove or repair those images first.")
    matrix = patches.double()
    orthogonal, triangle = torch.linalg.qr(matrix)
    left, singular, right = torch.linalg.svd(triangle, full_matrices=True)
    d = matrix.shape[1]
    share = max(matrix.shape) * torch.finfo(torch.float64).eps
    rank = int((singular > share * singular[0]).sum()) if singular[0] > 0 else 0
    values = matrix.new_zeros(d)
    values[:rank] = singular[:rank].square()
    return Spectrum(values=values, vectors=right.mT, left=(orthogonal @ left)[:, :rank])


def decay(values: Float[Tensor, " d"], *, rate: float, steps: float) -> Float[Tensor, " d"]:
    r"""What is left of the start: :math:`(1 - \eta\lambda)^t`, stable from t = 0 to 1e12.

    Examples
    --------
    >>> decay(torch.tensor([0.0, 0.5, 1.0, 1.5], dtype=torch.float64), rate=1.0, steps=3)
    tensor([ 1.0000,  0.1250,  0.0000, -0.1250], dtype=torch.float64)
    """
    _check_time(values, rate, steps)
    product = rate * values
    size = torch.where(
        product < 1, torch.log1p(-product.clamp(max=1)), torch.log((product - 1).clamp(min=0))
    )  # log |1 - rate * value|, minus infinity at exactly 1
    magnitude = torch.exp(steps * size) if steps else torch.ones_like(size)
    odd = float(steps).is_integer() and int(steps) % 2 == 1
    return torch.where((product > 1) & odd, -magnitude, magnitude)


def progress(values: Float[Tensor, " d"], *, rate: float, steps: float) -> Float[Tensor, " d"]:
    r"""What is reached of the way: :math:`1 - (1 - \eta\lambda)^t`, without cancellation for small values."""
    _check_time(values, rate, steps)
    product = rate * values
    small = -torch.expm1(steps * torch.log1p(-product.clamp(max=0.5)))
    return torch.where(product < 0.5, small, 1 - decay(values, rate=rate, steps=steps))


def filter_function(values: Float[Tensor, " d"], *, rate: float, steps: float) -> Float[Tensor, " d"]:
    r"""The filter that t steps amount to, with its limit at zero.

    .. math:: g_t(\lambda) = \frac{1 - (1 - \eta\lambda)^t}{\lambda}, \qquad g_t(0) = \eta t

    References
    ----------
    .. [1] FirstLayer, theorem 4.2, in the eigenbasis of G (errata E-05 to E-07).
    """
    reached = progress(values, rate=rate, steps=steps)
    limit = torch.full_like(values, rate * steps)
    return torch.where(values > 0, reached / values.clamp(min=torch.finfo(values.dtype).tiny), limit)


def flow_filter(values: Float[Tensor, " d"], *, time: float) -> Float[Tensor, " d"]:
    r"""The filter of gradient flow, :math:`(1 - e^{-\tau\lambda})/\lambda`.

    The limit of small steps at ``rate * steps = time``.
    """
    if not (math.isfinite(time) and time >= 0):
        raise InvalidInput(f"`time` must be a number of at least 0; got time={time}.")
    reached = -torch.expm1(-time * values)
    return torch.where(
        values > 0, reached / values.clamp(min=torch.finfo(values.dtype).tiny), torch.full_like(values, time)
    )


def weights(
    spectral: Spectrum,
    y: Float[Tensor, "n *outputs"],
    *,
    rate: float,
    steps: float,
    initial: Float[Tensor, "d *outputs"] | None = None,
) -> Float[Tensor, "d *outputs"]:
    r"""Weights after `steps` steps of full-batch gradient descent.

    .. math:: w_t = F_t K^\top y + (I - \eta G)^t w_0, \qquad F_t = g_t(G)

    Exact for any K, rank deficient or not. Cost O(n d) once the spectrum is known, whatever t.
    """
    moment = spectral.moment(y.double())
    scale = filter_function(spectral.values, rate=rate, steps=steps)
    reached = spectral.vectors @ (scale.reshape(-1, *[1] * (y.ndim - 1)) * moment)
    if initial is None:
        return reached
    return reached + spectral.apply(decay(spectral.values, rate=rate, steps=steps), initial.double())


def optimal_weights(spectral: Spectrum, y: Float[Tensor, "n *outputs"]) -> Float[Tensor, "d *outputs"]:
    r"""Minimum-norm least squares, :math:`G^+ K^\top y`, over the eigenvalues that the spectrum kept."""
    keep = spectral.values > 0
    inverse = torch.where(keep, 1 / spectral.values.clamp(min=torch.finfo(torch.float64).tiny), 0.0)
    moment = spectral.moment(y.double())
    return spectral.vectors @ (inverse.reshape(-1, *[1] * (y.ndim - 1)) * moment)


def converged_weights(
    inputs: Float[Tensor, "n d"], targets: Float[Tensor, "n c"], *, initial: Float[Tensor, "d c"]
) -> Float[Tensor, "d c"]:
    r"""Where gradient descent on least squares ends, from any start.

    .. math:: \hat W = W^0 + X^+ (Y - X W^0)

    With fewer examples than inputs this keeps W0 outside their span (lemma 1); with full column rank it
    is ordinary least squares and the start is forgotten (lemma 2).

    References
    ----------
    .. [1] IdentityCrisis, lemmas 1 and 2. What matters is the rank of X against the number of inputs,
       not against the outputs (E-61).
    """
    x, w0 = inputs.double(), initial.double()
    inverse: Tensor = torch.linalg.pinv(x)
    return w0 + inverse @ (targets.double() - x @ w0)


def regulariser(values: Float[Tensor, " d"], *, rate: float, steps: float) -> Float[Tensor, " d"]:
    r"""Eigenvalues of :math:`\Lambda_t`: stopping at step t equals ridge regression with this matrix.

    .. math:: w_t = (G + \Lambda_t)^{-1} K^\top y, \qquad
              \Lambda_t = \lambda \frac{(1-\eta\lambda)^t}{1-(1-\eta\lambda)^t} \to \frac{1}{\eta t}

    Positive for :math:`\eta\lambda \le 1`, decreasing in t.
    """
    if steps == 0:
        return torch.full_like(values, math.inf)
    return decay(values, rate=rate, steps=steps) / filter_function(values, rate=rate, steps=steps)


def _check_time(values: Tensor, rate: float, steps: float) -> None:
    if not (math.isfinite(rate) and rate > 0):
        raise InvalidInput(f"`rate` must be a positive number; got rate={rate}.")
    if not (math.isfinite(steps) and steps >= 0):
        raise InvalidInput(f"`steps` must be a number of at least 0; got steps={steps}.")
    largest = float(values.max()) if len(values) else 0.0
    if rate * largest >= 2:
        raise InvalidInput(
            f"`rate` must be below 2/largest eigenvalue = {2 / largest:.4g}, or gradient descent diverges; "
            f"got rate={rate:.4g}."
        )
    if rate * largest > 1 and not float(steps).is_integer():
        raise InvalidInput(f"`steps` must be whole where rate * eigenvalue exceeds 1; got steps={steps}.")


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
