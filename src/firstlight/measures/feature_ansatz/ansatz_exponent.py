"""The power of the gradient outer product that a layer's feature matrix is closest to."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.maths.filter_similarity import FiltersInSingularBasis, rotated
from firstlight.measures.feature_ansatz.ansatz import N_NULLS
from firstlight.measures.feature_ansatz.patch_gradients import LayerGradients, PatchGradients

LARGEST = 4.0  # powers from 0 to here are searched
LEVEL = 0.95
_FLAT = 1e-6  # a cosine that varies by less over all powers determines none


@dataclass(frozen=True, kw_only=True)
class AnsatzExponent(Result):
    r"""The exponent of one layer, with its interval and its null.

    Parameters
    ----------
    layer : str
        Its name.
    exponent : float
        The power of the AGOP that is closest to the feature matrix; NaN where all powers are equally close,
        as for an AGOP of rank one, or where the gradients vanish.
    low, high : float
        Interval for it over images, by leaving out sets of images in turn; NaN if one image was all there was.
    cosine : float
        Of the feature matrix and that power.
    null_exponent, null_cosine : Tensor of shape (draws,)
        Exponent and cosine with Q rotated at random. Near 1 where Q is nearly isotropic.
    is_output : bool
        The layer gives the outputs themselves: its exponent is 1 by definition.
    """

    layer: str
    exponent: float
    low: float
    high: float
    cosine: float
    null_exponent: Float[Tensor, " draws"]
    null_cosine: Float[Tensor, " draws"]
    is_output: bool

    @property
    def is_above_null(self) -> bool:
        """Whether the power fits better than it does for every rotated draw."""
        return self.cosine > float(self.null_cosine.max())


def ansatz_exponent(
    gradients: PatchGradients, *, draws: int = N_NULLS, seed: int = 0
) -> tuple[AnsatzExponent, ...]:
    r"""Fit the exponent :math:`\alpha` in :math:`W^\top W \propto \mathrm{AGOP}^\alpha`, layer by layer.

    .. math:: \alpha = \arg\max_{0 \le a \le 4} \cos\big(W^\top W,\; (W^\top Q W)^a\big)

    The published ansatz takes one power for all layers. In a deep linear network :math:`W_L \cdots W_1` whose
    layers are balanced, :math:`W_{l+1}^\top W_{l+1} = W_l W_l^\top`, the product behind layer l telescopes to
    :math:`\mathrm{AGOP}_l = (W_l^\top W_l)^{L-l+1}`. The exponent is 1/L at the first layer and 1 at the last.

    *What a practitioner does with the number:* a low correlation at power 1 with a high one at the fitted power
    means that the layer did learn along its gradients; judge the ansatz at the fitted power.

    Parameters
    ----------
    gradients : PatchGradients
        From :func:`firstlight.measures.feature_ansatz.patch_gradients.patch_gradients`.
    draws : int, default N_NULLS
        Number of random rotations of Q for the null.
    seed : int, default 0
        Seed of the null.

    Returns
    -------
    tuple of AnsatzExponent
        One per layer. Cost O(draws r³) each, r = min(k, d): everything happens in the basis of the left singular
        vectors of W, where the AGOP is :math:`S U^\top Q U S` and no d x d matrix occurs.

    Notes
    -----
    The cosine does not change when patches are rotated; Pearson's correlation over entries does, so it is not
    used. Where groups split a layer, their blocks share one exponent and one factor.

    References
    ----------
    .. [1] arXiv 2510.15563. The estimator, the interval and the null are ours.

    Examples
    --------
    >>> from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
    >>> model = torch.nn.Sequential(*(torch.nn.Linear(2, 2, bias=False) for _ in range(3)))
    >>> for layer in model:  # balanced
    ...     layer.weight.data = torch.diag(torch.tensor([1.0, 2.0]))
    >>> [round(row.exponent, 3) for row in ansatz_exponent(patch_gradients(model, torch.eye(2)))]
    [0.333, 0.5, 1.0]
    """
    if draws < 1:
        raise InvalidInput(f"`draws` must be at least 1: no number without its null; got draws={draws}.")
    return tuple(_fitted(layer, draws, seed) for layer in gradients.layers)


def _fitted(layer: LayerGradients, draws: int, seed: int) -> AnsatzExponent:
    filters = FiltersInSingularBasis.of(layer.reduced)
    q = layer.covariance
    exponent, cosine = _best_power(filters.squares, filters.inner(q))
    rotations = rotated(q, filters.left, draws=draws, seed=seed)
    null = torch.tensor([_best_power(filters.squares, inner) for inner in rotations], dtype=torch.float64)
    low, high = _interval(layer, filters, exponent)
    return AnsatzExponent(
        layer=layer.name,
        exponent=exponent,
        low=low,
        high=high,
        cosine=cosine,
        null_exponent=null[:, 0],
        null_cosine=null[:, 1],
        is_output=layer.is_output,
    )


def _best_power(squares: Float[Tensor, "g r"], inner: Float[Tensor, "g r r"]) -> tuple[float, float]:
    r"""The power a of :math:`S \tilde Q S` whose cosine with S² is largest, and that cosine.

    With eigenvalues c and eigenvectors e of :math:`S \tilde Q S`, the cosine is
    :math:`\sum_j c_j^a m_j / (\|S^2\| \|c^a\|)` with :math:`m_j = e_j^\top S^2 e_j`: one decomposition serves all a.
    """
    # WᵀW → S² and WᵀQW → S Q̃ S in the basis V: cosines do not depend on the basis
    roots = squares.sqrt()
    values, vectors = torch.linalg.eigh(roots[:, :, None] * inner * roots[:, None, :])
    largest = float(values.max())
    if not largest > 0:
        return math.nan, math.nan
    positive = values > values.shape[1] * torch.finfo(torch.float64).eps * largest
    # c^a = exp(a log(c/c₁)): relative to the largest, so that no power overflows
    logs = torch.where(positive, values / largest, 1.0).log()[positive]
    # m_j = e_jᵀ S² e_j / ‖S²‖
    mass = torch.einsum("gi,gij->gj", squares, vectors.square())[positive] / squares.norm()

    def cosine(power: float) -> float:
        powers = (power * logs).exp()
        return float((powers * mass).sum() / powers.norm())

    grid = torch.linspace(0, LARGEST, 41).tolist()
    heights = [cosine(power) for power in grid]
    if max(heights) - min(heights) < _FLAT:
        return math.nan, max(heights)
    peak = max(range(len(grid)), key=heights.__getitem__)
    bounds = (grid[max(peak - 1, 0)], grid[min(peak + 1, len(grid) - 1)])
    # the cosine may have several maxima, the interval around the best point of the grid has one
    from scipy.optimize import minimize_scalar  # when it is measured: a second

    best = minimize_scalar(
        lambda power: -cosine(power), bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )
    return float(best.x), -float(best.fun)


def _interval(layer: LayerGradients, filters: FiltersInSingularBasis, exponent: float) -> tuple[float, float]:
    """Student's interval by the jackknife over sets of images."""
    if layer.is_output:
        return exponent, exponent
    rest = [_best_power(filters.squares, filters.inner(q))[0] for q in layer.without_each_set]
    if not rest or math.isnan(exponent):
        return math.nan, math.nan
    # jackknife, as for the correlations; few sets, hence Student instead of the normal distribution
    spread = torch.tensor(rest, dtype=torch.float64).var() * (len(rest) - 1) ** 2 / len(rest)
    from scipy.stats import t as student

    half = float(student.ppf((1 + LEVEL) / 2, len(rest) - 1)) * math.sqrt(float(spread))
    return exponent - half, exponent + half
