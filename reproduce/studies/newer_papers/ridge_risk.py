"""The expected error of kernel ridge regression from the eigenvalues of the kernel and the target's coefficients."""

import heapq
import math
from itertools import pairwise

import torch
from jaxtyping import Float, Int
from scipy.optimize import brentq
from torch import Tensor

from firstlight._internal.errors import InvalidInput


def implicit_regulariser(spectrum: Float[Tensor, " m"], n: int, ridge: float) -> float:
    r"""The number :math:`\kappa` that solves :math:`n = \sum_i \lambda_i / (\lambda_i + \kappa) + \delta / \kappa`.

    With n examples, modes of eigenvalue above :math:`\kappa` are learned and those below are not. Modes that n
    examples cannot resolve act as a ridge of their own, also where the ridge :math:`\delta` is 0.

    Examples
    --------
    >>> round(implicit_regulariser(torch.ones(10), 5, 0.0), 6)  # 5 = 10 / (1 + kappa)
    1.0
    """
    values = spectrum.double()
    if n < 1 or ridge < 0 or not bool((values >= 0).all()) or not bool(values.any()):
        raise InvalidInput(
            f"eigenvalues must be at least 0 and not all 0, `n` at least 1, `ridge` at least 0; got n={n}, {ridge}."
        )
    if ridge == 0 and int((values > 0).sum()) <= n:
        return 0.0  # enough examples for every mode
    top = float(values.sum() + ridge) / n  # at kappa = top the right side is at most n

    def excess(log_kappa: float) -> float:
        kappa = math.exp(log_kappa)
        return float((values / (values + kappa)).sum()) + ridge / kappa - n

    low = math.log(top) - 1
    while excess(low) < 0:
        low -= 1
    return math.exp(brentq(excess, low, math.log(top) + 1e-9, xtol=1e-13, rtol=1e-13))


def ridge_risk(
    spectrum: Float[Tensor, " m"], energies: Float[Tensor, " _m"], n: int, *, ridge: float, noise: float = 0.0
) -> float:
    r"""Expected squared error on new examples after ridge regression on n.

    .. math:: E(n) = \frac{\sum_i (1 - L_i)^2 v_i^2 + \sigma^2}{1 - \frac1n \sum_i L_i^2}, \qquad
              L_i = \frac{\lambda_i}{\lambda_i + \kappa}

    with :math:`\kappa` from :func:`implicit_regulariser`, :math:`v_i^2` the energies of the target in the
    orthonormal eigenfunctions and :math:`\sigma^2` the variance of what no eigenfunction explains, which counts
    in the error too. Asymptotically exact for Gaussian modes; for other data an ansatz.

    Parameters
    ----------
    spectrum : Tensor of shape (m,)
        Eigenvalues of the kernel operator under the distribution of the examples.
    energies : Tensor of shape (_m,)
        Squared coefficients of the target, one for each of the m modes. Unbiased estimates may be negative.
    n : int
        Number of examples.
    ridge : float
        :math:`\delta` in :math:`(K + \delta I)\alpha = y`.
    noise : float, default 0.0
        :math:`\sigma^2`.

    References
    ----------
    .. [1] arXiv 2510.14878, section 2; derived by several authors before.

    Examples
    --------
    >>> ridge_risk(torch.ones(4), torch.ones(4), 1000, ridge=0.0)
    0.0
    """
    if spectrum.shape != energies.shape or noise < 0:
        raise InvalidInput(
            f"`energies` must match `spectrum` and `noise` be at least 0; got {tuple(energies.shape)} for "
            f"{tuple(spectrum.shape)} and noise={noise}."
        )
    kappa = implicit_regulariser(spectrum, n, ridge)
    values = spectrum.double()
    learned = values / (values + kappa) if kappa > 0 else (values > 0).double()
    bias = max(0.0, float(((1 - learned).square() * energies.double()).sum()))
    shrinkage = 1 - float(learned.square().sum()) / n
    if (
        shrinkage <= 0
    ):  # as many modes as examples and no ridge: interpolation with a matrix that may be singular
        return 0.0 if bias + noise == 0 else math.inf
    return (bias + noise) / shrinkage


def hermite_modes(
    variances: Float[Tensor, " d"], levels: Float[Tensor, " l"], *, count: int
) -> tuple[Float[Tensor, " m"], Int[Tensor, "m d"]]:
    r"""The largest eigenvalues :math:`c_{|a|} \prod_i \gamma_i^{a_i}` and their multi-indices a, largest first.

    For a kernel that depends on the examples through their inner product only, and Gaussian examples with
    variances :math:`\gamma` along their principal components, modes are products of Hermite polynomials, up to
    corrections that vanish as the effective dimension grows.

    Parameters
    ----------
    variances : Tensor of shape (d,)
        Of the principal components, decreasing.
    levels : Tensor of shape (l,)
        :math:`c_0, c_1, \dots`: the coefficient of each degree.
    count : int
        Number of modes.

    Examples
    --------
    >>> values, degrees = hermite_modes(torch.tensor([0.5, 0.1]), torch.ones(3), count=4)
    >>> [round(v, 3) for v in values.tolist()], degrees.tolist()
    ([1.0, 0.5, 0.25, 0.1], [[0, 0], [1, 0], [2, 0], [0, 1]])
    """
    gamma, c = variances.double().tolist(), levels.double().tolist()
    if not gamma or any(a < b for a, b in pairwise(gamma)) or min(gamma) < 0 or min(c) < 0:
        raise InvalidInput("`variances` must be decreasing and, like `levels`, at least 0.")
    chosen: list[tuple[float, tuple[int, ...]]] = []
    for degree, level in enumerate(c):
        # within a degree, products of decreasing numbers: the best first, then move one factor to the next component
        heap = [(-level * gamma[0] ** degree, (0,) * degree)]
        known = {heap[0][1]}
        taken = 0
        while heap and taken < count:
            value, places = heapq.heappop(heap)
            chosen.append((-value, places))
            taken += 1
            for position in range(degree):
                moved = places[position] + 1
                if moved >= len(gamma) or (position + 1 < degree and moved > places[position + 1]):
                    continue
                after = (*places[:position], moved, *places[position + 1 :])
                if after not in known:
                    known.add(after)
                    heapq.heappush(heap, (-level * math.prod(gamma[p] for p in after), after))
    chosen = sorted(chosen, key=lambda mode: -mode[0])[:count]
    degrees = torch.zeros(len(chosen), len(gamma), dtype=torch.int64)
    for row, (_, places) in enumerate(chosen):
        for place in places:
            degrees[row, place] += 1
    return torch.tensor([value for value, _ in chosen], dtype=torch.float64), degrees


def hermite_values(z: Float[Tensor, "n d"], degrees: Int[Tensor, "m d"]) -> Float[Tensor, "n m"]:
    r"""Products :math:`\prod_i h_{a_i}(z_i)` of Hermite polynomials that are orthonormal for standard normal z.

    Examples
    --------
    >>> hermite_values(torch.tensor([[2.0]]), torch.tensor([[0], [1], [2]])).tolist()[0][:2]
    [1.0, 2.0]
    """
    rows = z.double()
    powers = [torch.ones_like(rows), rows]
    for k in range(1, int(degrees.max()) if degrees.numel() else 0):
        # probabilists' recursion, divided by the root of the factorial on the way
        powers.append((rows * powers[k] - math.sqrt(k) * powers[k - 1]) / math.sqrt(k + 1))
    table = torch.ones(len(rows), len(degrees), dtype=torch.float64)
    for mode, degree in enumerate(degrees):
        for place in degree.nonzero().flatten().tolist():
            table[:, mode] *= powers[int(degree[place])][:, place]
    return table
