r"""Deep linear networks: how a gradient step moves the product of all layers.

Layers are matrices :math:`W_l` of shape (outputs, inputs), first to last; data matrices hold one sample per
row. The loss is :math:`\frac12 \|X \mathbf{W}^\top - Y\|_F^2` with :math:`\mathbf{W} = W_L \cdots W_1`, and
moments are sums over samples: where a loss averages over n samples, divide the rate by n. All functions of
layers accept leading axes, for many networks at once.

References
----------
.. [1] PCBias, sections 2 and A; corrected by E-21 to E-29 of docs/errata.md.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.theory.least_squares import decay, filter_function

Layers = Sequence[Float[Tensor, "... _ _"]]


@dataclass(frozen=True, kw_only=True)
class PrincipalMoments(Result):
    r"""Second moments of the data, in principal coordinates.

    Parameters
    ----------
    values : Tensor of shape (q,)
        :math:`d_j`, eigenvalues of :math:`\Sigma_{XX} = X^\top X`, descending; zero beyond the rank.
    basis : Tensor of shape (q, q)
        U, one principal direction per column.
    cross : Tensor of shape (k, q)
        :math:`M = Y^\top X U`; column j drives component j. Zero where the data do not vary.
    n_samples : int
        Number of rows of X.
    """

    values: Float[Tensor, " q"]
    basis: Float[Tensor, "q q"]
    cross: Float[Tensor, "k q"]
    n_samples: int

    @property
    def optimum(self) -> Float[Tensor, "k q"]:
        r"""Least-squares optimum in principal coordinates, :math:`m_j / d_j`; zero beyond the rank."""
        return torch.where(self.values > 0, self.cross / self.values.clamp(min=1e-300), 0.0)

    def rotated(self, weights: Float[Tensor, "*nets k q"]) -> Float[Tensor, "*nets k q"]:
        """Columns of a compact representation along the principal directions."""
        return weights.double() @ self.basis


def principal_moments(inputs: Float[Tensor, "n q"], targets: Float[Tensor, "n k"]) -> PrincipalMoments:
    r"""Decompose :math:`X^\top X` in float64. Directions below q times 2.2e-16 of the top count as empty.

    Examples
    --------
    >>> x = torch.tensor([[2.0, 0.0], [0.0, 1.0]])
    >>> principal_moments(x, torch.eye(2)).optimum.abs()
    tensor([[0.5000, 0.0000],
            [0.0000, 1.0000]], dtype=torch.float64)
    """
    if len(inputs) != len(targets) or len(inputs) == 0:
        raise InvalidInput(f"`targets` must match `inputs`; got {len(targets)} rows for {len(inputs)}.")
    x, y = inputs.double(), targets.double()
    if not (x.isfinite().all() and y.isfinite().all()):
        raise InvalidInput("`inputs` or `targets` hold NaN or infinite values. Repair those samples first.")
    values, basis = torch.linalg.eigh(x.T @ x)
    values, basis = values.flip(0), basis.flip(1)
    filled = values > x.shape[1] * torch.finfo(torch.float64).eps * values[0]
    cross = (y.T @ x) @ basis
    return PrincipalMoments(
        values=torch.where(filled, values, 0.0),
        basis=basis,
        cross=torch.where(filled, cross, 0.0),
        n_samples=len(x),
    )


def compact(layers: Layers) -> Float[Tensor, "*nets k q"]:
    r"""The compact representation :math:`\mathbf{W} = W_L \cdots W_1`."""
    # from the narrow end: with few outputs every product is then a thin one
    if layers[-1].shape[-2] <= layers[0].shape[-1]:
        product = layers[-1]
        for layer in reversed(layers[:-1]):
            product = product @ layer
        return product
    product = layers[0]
    for layer in layers[1:]:
        product = layer @ product
    return product


def error_matrix(
    weights: Float[Tensor, "*nets k q"], sxx: Float[Tensor, "q q"], syx: Float[Tensor, "k q"]
) -> Float[Tensor, "*nets k q"]:
    r"""Gradient of the loss with respect to the product: :math:`Er = \mathbf{W}\Sigma_{XX} - \Sigma_{YX}`."""
    return weights @ sxx - syx


@dataclass(frozen=True, kw_only=True)
class ScaleMatrices(Result):
    r"""Gradient scale matrices of all layers, first to last.

    Parameters
    ----------
    left : tuple of Tensor of shape (..., k, k)
        :math:`A_l = (W_L \cdots W_{l+1})(W_L \cdots W_{l+1})^\top`, of the outputs; the last is I.
    right : tuple of Tensor of shape (..., q, q)
        :math:`B_l = (W_{l-1} \cdots W_1)^\top (W_{l-1} \cdots W_1)`, of the inputs; the first is I.
    """

    left: tuple[Float[Tensor, "*nets k k"], ...]
    right: tuple[Float[Tensor, "*nets q q"], ...]


def scale_matrices(layers: Layers) -> ScaleMatrices:
    """Compute A_l and B_l of every layer. Cost O(L) products of the layers."""
    above, below = _partial_products(layers)
    return ScaleMatrices(
        left=tuple(part @ part.mT for part in above), right=tuple(part.mT @ part for part in below)
    )


def layer_gradients(
    layers: Layers, sxx: Float[Tensor, "q q"], syx: Float[Tensor, "k q"]
) -> tuple[Tensor, ...]:
    r"""Gradient of the loss with respect to each layer.

    .. math:: \partial / \partial W_l = (W_L \cdots W_{l+1})^\top\, Er\, (W_{l-1} \cdots W_1)^\top
    """
    below = error_matrix(compact(layers), sxx, syx)  # Er times the transposes of the layers below
    above = torch.eye(layers[-1].shape[-2], dtype=below.dtype).expand(*below.shape[:-2], -1, -1)
    tops = [above]
    for layer in reversed(layers[1:]):
        tops.append(tops[-1] @ layer)
    gradients = []
    for layer, top in zip(layers, reversed(tops), strict=True):
        gradients.append(top.mT @ below)
        below = below @ layer.mT
    return tuple(gradients)


def gradient_step(
    layers: Layers, sxx: Float[Tensor, "q q"], syx: Float[Tensor, "k q"], *, rate: float
) -> list[Tensor]:
    """All layers after one simultaneous gradient step."""
    gradients = layer_gradients(layers, sxx, syx)
    return [layer - rate * slope for layer, slope in zip(layers, gradients, strict=True)]


def first_order_change(
    layers: Layers, sxx: Float[Tensor, "q q"], syx: Float[Tensor, "k q"], *, rate: float
) -> Float[Tensor, "*nets k q"]:
    r"""Change of the compact representation in one step, to first order in the rate.

    .. math:: \mathbf{W}^+ - \mathbf{W} = -\mu \sum_l A_l\, Er\, B_l + O(\mu^2)

    Exact for a single layer.
    """
    error = error_matrix(compact(layers), sxx, syx)
    scales = scale_matrices(layers)
    total = torch.zeros_like(error)
    for left, right in zip(scales.left, scales.right, strict=True):
        total = total + left @ error @ right
    return -rate * total


def columns_at(
    start: Float[Tensor, "*nets k q"], moments: PrincipalMoments, *, rate: float, steps: float, depth: int = 1
) -> Float[Tensor, "*nets k q"]:
    r"""Principal columns after a number of steps, each on its own.

    .. math:: w_j^{(s)} = \lambda_j^s\, w_j^{(0)} + (1 - \lambda_j^s)\, m_j / d_j,
        \qquad \lambda_j = 1 - \mu L d_j

    Exact for one layer. For depth L it holds while all A_l and B_l are the identity: wide layers, small
    rates, early times. Columns without variance keep their start.

    Parameters
    ----------
    start : Tensor of shape (..., k, q)
        Compact representation at the start in principal coordinates.
    moments : PrincipalMoments
        Moments of the data.
    rate : float
        μ for summed losses.
    steps : float
        s.
    depth : int, default 1
        L; the rate of every column grows with it.
    """
    kept = decay(moments.values, rate=rate * depth, steps=steps)
    reached = filter_function(moments.values, rate=rate * depth, steps=steps)
    return start * kept + moments.cross * reached


# ---------------------------------------------------------------- initialisation


def definition3_variances(widths: Sequence[int]) -> list[float]:
    r"""Variances of the entries of each layer under definition 3 of PCBias.

    .. math:: \sigma_1^2 = 1/m_1,\quad \sigma_l^2 = 2/(m_{l-1} + m_l),\quad \sigma_L^2 = 1/m_{L-1}

    Parameters
    ----------
    widths : sequence of int
        :math:`m_0 \ldots m_L`, inputs and outputs included. One layer alone, of which the definition says
        nothing, gets one over the number of inputs.

    Examples
    --------
    >>> definition3_variances([5, 100, 100, 3])
    [0.01, 0.01, 0.01]
    """
    _check_widths(widths)
    if len(widths) == 2:
        return [1 / widths[0]]
    middle = [2 / (a + b) for a, b in pairwise(widths[1:-1])]
    return [1 / widths[1], *middle, 1 / widths[-2]]


def glorot_variances(widths: Sequence[int]) -> list[float]:
    """Variances of Glorot's rule, two over the sum of inputs and outputs of a layer."""
    _check_widths(widths)
    return [2 / (a + b) for a, b in pairwise(widths)]


def drawn_layers(
    widths: Sequence[int],
    variances: Sequence[float],
    *,
    generator: torch.Generator,
    draws: tuple[int, ...] = (),
    distribution: Literal["gaussian", "uniform"] = "gaussian",
) -> list[Tensor]:
    """Independent layers with iid entries of these variances, in float64; `draws` are leading axes."""
    _check_widths(widths)
    layers = []
    for inputs, outputs, variance in zip(widths[:-1], widths[1:], variances, strict=True):
        shape = (*draws, outputs, inputs)
        if distribution == "gaussian":
            unit = torch.randn(shape, generator=generator, dtype=torch.float64)
        else:
            unit = (2 * torch.rand(shape, generator=generator, dtype=torch.float64) - 1) * math.sqrt(3)
        layers.append(math.sqrt(variance) * unit)
    return layers


@dataclass(frozen=True, kw_only=True)
class ExpectedScales(Result):
    r"""Means over independent random layers.

    Parameters
    ----------
    left : tuple of float
        :math:`\alpha_l` of :math:`E[A_l] = \alpha_l I`, first to last layer.
    right : tuple of float
        :math:`\beta_l` of :math:`E[B_l] = \beta_l I`.
    product_variance : float
        Variance of every entry of the compact representation.
    """

    left: tuple[float, ...]
    right: tuple[float, ...]
    product_variance: float


def expected_scales(widths: Sequence[int], variances: Sequence[float]) -> ExpectedScales:
    r"""Expectation of the scale matrices and variance of the product, for any variances.

    .. math:: \beta_l = \prod_{n<l} m_n \sigma_n^2,\quad \alpha_l = \prod_{n>l} m_{n-1} \sigma_n^2,\quad
        \operatorname{Var}[\mathbf{W}_{ij}] = \frac{1}{m_L} \prod_n m_n \sigma_n^2
    """
    _check_widths(widths)
    outputs = [m * v for m, v in zip(widths[1:], variances, strict=True)]
    inputs = [m * v for m, v in zip(widths[:-1], variances, strict=True)]
    depth = len(variances)
    return ExpectedScales(
        left=tuple(math.prod(inputs[layer + 1 :]) for layer in range(depth)),
        right=tuple(math.prod(outputs[:layer]) for layer in range(depth)),
        product_variance=math.prod(outputs) / widths[-1],
    )


def expected_drift(widths: Sequence[int], sxx: Float[Tensor, "q q"], *, rate: float) -> ScaleMatrices:
    r"""Mean loss of A_l and B_l in the first step from definition 3, to leading order in one over width.

    .. math:: E[B_l - B_l^+] = \mu\, l(l-1)\, \tfrac{K}{m}\, \Sigma_{XX}, \qquad
        E[A_l - A_l^+] = \mu\, (L-l)(L-l+1)\, \tfrac{\operatorname{tr}\Sigma_{XX}}{m}\, I

    The paper prints other constants and the identity in place of the moments (E-26). Hidden widths must
    agree: m is the first of them.
    """
    _check_widths(widths)
    depth, outputs, width = len(widths) - 1, widths[-1], widths[1]
    unit = torch.eye(outputs, dtype=sxx.dtype)
    levels = range(1, depth + 1)
    return ScaleMatrices(
        left=tuple(rate * (depth - i) * (depth - i + 1) * sxx.trace() / width * unit for i in levels),
        right=tuple(rate * i * (i - 1) * outputs / width * sxx for i in levels),
    )


@dataclass(frozen=True, kw_only=True)
class IdentityDistance(Result):
    """How far a square matrix is from a multiple of the identity.

    Parameters
    ----------
    diagonal : float
        Mean absolute deviation of diagonal entries from their mean, over that mean.
    off_diagonal : float
        Mean absolute off-diagonal entry over the mean diagonal one; zero for 1 x 1.
    off_diagonal_rms : float
        The same as a root mean square, not divided.
    smallest, largest : float
        Extreme eigenvalues. Entries may be small while these are not: B_l is far from the identity as an
        operator once inputs outnumber the width (E-29).
    """

    diagonal: float
    off_diagonal: float
    off_diagonal_rms: float
    smallest: float
    largest: float


def identity_distance(matrix: Float[Tensor, "d d"]) -> IdentityDistance:
    """Entries and spectrum of a scale matrix beside the identity's."""
    exact = matrix.double()
    diagonal = exact.diagonal()
    mean = diagonal.mean()
    if not mean > 0:
        raise InvalidInput(
            f"`matrix` must have a positive trace; its mean diagonal entry is {float(mean):.3g}."
        )
    count = max(len(exact) * (len(exact) - 1), 1)
    off = exact - torch.diag(diagonal)
    values = torch.linalg.eigvalsh((exact + exact.mT) / 2)
    return IdentityDistance(
        diagonal=float((diagonal / mean - 1).abs().mean()),
        off_diagonal=float(off.abs().sum() / count / mean),
        off_diagonal_rms=float((off.square().sum() / count).sqrt()),
        smallest=float(values[0]),
        largest=float(values[-1]),
    )


def _partial_products(layers: Layers) -> tuple[list[Tensor], list[Tensor]]:
    """For every layer, the product of those above it and of those below it."""
    like, nets = layers[0], layers[0].shape[:-2]
    below = [torch.eye(like.shape[-1], dtype=like.dtype).expand(*nets, -1, -1)]
    for layer in layers[:-1]:
        below.append(layer @ below[-1])
    above = [torch.eye(layers[-1].shape[-2], dtype=like.dtype).expand(*nets, -1, -1)]
    for layer in reversed(layers[1:]):
        above.append(above[-1] @ layer)
    return above[::-1], below


def _check_widths(widths: Sequence[int]) -> None:
    if len(widths) < 2 or min(widths) < 1:
        raise InvalidInput(f"`widths` must name inputs, hidden layers and outputs; got {list(widths)}.")
