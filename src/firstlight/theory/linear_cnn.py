r"""The linear CNN of the paper FirstLayer: what gradient descent makes of the first layer, in closed form.

One convolution with M filters, no activation, averaged over positions and filters, is linear regression
on the average patch of each image. `patches` is the matrix K of average patches, one row an image, in the
basis of the patch principal components, so that coordinate i belongs to component i.
"""

from dataclasses import dataclass
from enum import Enum

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.theory.least_squares import Spectrum, decay, filter_function, spectrum, weights


class LabelCoding(Enum):
    """How random labels are drawn. It changes the answer (erratum E-12)."""

    BERNOULLI = "bernoulli"
    """Independent 0/1 labels: the expected weights follow the mean patch."""
    SHUFFLED = "shuffled"
    """A random permutation of balanced 0/1 labels: same mean, smaller variance."""
    SIGNS = "signs"
    """Independent -1/+1 labels: the mean vanishes, only the variance term is left."""


def effective_rate(rate: float, *, readout: Float[Tensor, " m"], n: int, loss: str = "mse") -> float:
    r"""Step size that the read-out filter :math:`v = W^\top a` feels.

    .. math:: \eta_\mathrm{eff} = \eta s |a|^2

    Parameters
    ----------
    rate : float
        Step size given to the optimiser.
    readout : Tensor of shape (m,)
        The fixed vector a; the paper's is ``1/M`` everywhere.
    n : int
        Number of images.
    loss : str, default 'mse'
        "half_sum" for ``1/2 sum r^2``, "sum", "half_mse" for ``1/(2N) sum r^2``, "mse" as in PyTorch.

    References
    ----------
    .. [1] FirstLayer, lemma A.2, with the printed factor corrected (E-03).
    """
    scales = {"half_sum": 1.0, "sum": 2.0, "half_mse": 1.0 / n, "mse": 2.0 / n}
    if loss not in scales:
        raise InvalidInput(f"`loss` must be one of {', '.join(scales)}; got {loss!r}.")
    return rate * scales[loss] * float(readout.double().square().sum())


def filters_at(
    patches: Float[Tensor, "n d"],
    y: Float[Tensor, " n"],
    *,
    initial: Float[Tensor, "m d"],
    readout: Float[Tensor, " m"],
    rate: float,
    steps: int,
) -> Float[Tensor, "m d"]:
    r"""All filters of the linear CNN after `steps` steps of effective size `rate`.

    .. math:: W_t = W_0 + a (v_t - v_0)^\top / |a|^2, \qquad v = W^\top a

    Filters move rigidly along the read-out: for the paper's read-out their covariance never changes.
    """
    w0, a = initial.double(), readout.double()
    start = w0.mT @ a
    end = weights(spectrum(patches), y.double(), rate=rate, steps=steps, initial=start)
    return w0 + torch.outer(a, end - start) / a.square().sum()


@dataclass(frozen=True, kw_only=True)
class RandomLabelMoments(Result):
    """Mean and covariance of the weights over random labels, zero initialisation."""

    mean: Float[Tensor, " d"]
    covariance: Float[Tensor, "d d"]

    @property
    def squared_profile(self) -> Float[Tensor, " d"]:
        """Expected square of every weight: squared mean plus variance."""
        return self.mean.square() + self.covariance.diagonal()


def random_label_moments(
    spectral: Spectrum,
    *,
    rate: float,
    steps: float,
    coding: LabelCoding = LabelCoding.BERNOULLI,
) -> RandomLabelMoments:
    r"""Moments of the weights when labels are random.

    .. math:: E[w_t] = \tfrac12 F_t K^\top 1, \qquad \mathrm{Cov}[w_t] = \tfrac14 F_t G F_t

    Shuffled balanced labels replace G by :math:`\frac{N}{N-1}(G - N \bar k \bar k^\top)`; signs have zero
    mean and covariance :math:`F_t G F_t`.

    Parameters
    ----------
    spectral : Spectrum
        Spectrum of the average patches.
    rate, steps : float
        The time.
    coding : LabelCoding, default LabelCoding.BERNOULLI
        How labels are drawn.

    References
    ----------
    .. [1] FirstLayer, corollary 4.4, which has the mean only (E-12).
    """
    n = spectral.left.shape[0]
    ones = torch.ones(n, dtype=torch.float64)
    filtered = filter_function(spectral.values, rate=rate, steps=steps)
    mean_direction = spectral.vectors @ (filtered * spectral.moment(ones))  # F_t K^T 1
    covariance = spectral.matrix(filtered.square() * spectral.values)
    if coding is LabelCoding.SIGNS:
        return RandomLabelMoments(mean=torch.zeros_like(mean_direction), covariance=covariance)
    if coding is LabelCoding.SHUFFLED:
        centred = covariance - torch.outer(mean_direction, mean_direction) / n
        return RandomLabelMoments(mean=0.5 * mean_direction, covariance=0.25 * n / (n - 1) * centred)
    return RandomLabelMoments(mean=0.5 * mean_direction, covariance=0.25 * covariance)


def expected_squared_profile(
    spectral: Spectrum, y: Float[Tensor, " n"], *, rate: float, steps: float, sigma: float, width: int
) -> Float[Tensor, " d"]:
    r"""Expected :math:`e_i^2/M` over initial filters with independent entries of variance sigma squared.

    .. math:: (F_t K^\top y)_i^2 + \frac{\sigma^2}{M}\left[(I-\eta G)^{2t}\right]_{ii} + \sigma^2 (1 - 1/M)

    References
    ----------
    .. [1] FirstLayer, theorem A.3, which gives the limit of infinite width (E-14).
    """
    moved = weights(spectral, y, rate=rate, steps=steps).square()
    remaining = decay(spectral.values, rate=rate, steps=steps).square()
    remembered = (spectral.vectors.square() * remaining).sum(1)
    return moved + sigma**2 / width * remembered + sigma**2 * (1 - 1 / width)


def diagonal_form(
    scatter: Float[Tensor, " d"],
    mean: Float[Tensor, " d"],
    moment: Float[Tensor, " d"],
    *,
    rate: float,
    steps: float,
) -> Float[Tensor, " d"]:
    r"""The paper's A/B expression, repaired: an approximation, exact only in a special case.

    It assumes that the scatter of average patches is diagonal in the patch basis and that their mean is
    an eigenvector of it:

    .. math:: w_t = A m + (B - A) \mu \mu^\top m / |\mu|^2

    Parameters
    ----------
    scatter : Tensor of shape (d,)
        Diagonal of N times the covariance of average patches.
    mean : Tensor of shape (d,)
        sqrt(N) times the mean average patch.
    moment : Tensor of shape (d,)
        :math:`K^\top y`.
    rate, steps : float
        The time.

    References
    ----------
    .. [1] FirstLayer, theorem 4.2 with errata E-04 to E-08; use :func:`weights` instead.
    """
    size = mean.square().sum()
    a = filter_function(scatter, rate=rate, steps=steps)
    b = filter_function(scatter + size, rate=rate, steps=steps)
    return a * moment + (b - a) * mean * (mean @ moment) / size


def random_label_direction(
    scatter_plus_regulariser: Float[Tensor, "d d"], mean: Float[Tensor, " d"]
) -> Float[Tensor, " d"]:
    r"""Direction of the expected weights: :math:`(\Sigma' + \mu\mu^\top)^{-1}\mu`, by Sherman and Morrison.

    It equals :math:`\Sigma'^{-1}\mu / (1 + \mu^\top\Sigma'^{-1}\mu)`, so it points along
    :math:`\Sigma'^{-1}\mu` (theorem A.5, E-09).
    """
    solved = torch.linalg.solve(scatter_plus_regulariser, mean)
    direction: Tensor = solved / (1 + mean @ solved)
    return direction
