"""Filters known in advance: how much of a layer a few derivatives of a Gaussian explain."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight._internal.shapes import Images
from firstlight.maths.patches import PatchGeometry
from firstlight.maths.pca import patch_pca

N_MASTERS = 6
N_SUBSPACES = 64


@dataclass(frozen=True, kw_only=True)
class MasterShare(Result):
    """How much of a layer's filters a few master filters explain.

    Parameters
    ----------
    share : float
        Share of the squared weights in the span of the master filters.
    patches : float
        The same for as many leading components of the patches: what the statistics of the images give.
    random : Tensor of shape (draws,)
        The same for random subspaces of that dimension; their number over the size of a filter on average.
    best : float
        The same for as many components of the filters themselves: no subspace can explain more.
    masters : Tensor of shape (m, q, q)
        The master filters, orthonormal.
    """

    share: float
    patches: float
    random: Float[Tensor, " draws"]
    best: float
    masters: Float[Tensor, "m q q"]


def master_filters(
    filters: Float[Tensor, "k c q q"],
    images: Images,
    *,
    count: int = N_MASTERS,
    sigma: float | None = None,
    draws: int = N_SUBSPACES,
    seed: int = 0,
) -> MasterShare:
    r"""Share of a depthwise or first layer that lies in the span of a few master filters.

    .. math:: \sum_{k,c} \|\Pi A_{kc}\|^2 \Big/ \sum_{k,c} \|A_{kc}\|^2, \qquad
              \operatorname{span} \Pi = \{ G, \partial_x G, \partial_y G, \Delta G, (\partial_x^2 - \partial_y^2) G,
              \partial_x \partial_y G \}

    with G a Gaussian. Differences of Gaussians are close to :math:`\Delta G`. Every channel of a filter counts
    as a filter of its own.

    *What a practitioner does with the number:* where the masters explain nearly all, and more than patch components
    do, try the layer with these filters, frozen.

    Parameters
    ----------
    filters : Tensor of shape (k, c, q, q)
        Weight of a convolution; c = 1 for a depthwise one.
    images : Tensor of shape (n, c, h, w)
        What the layer sees, for the null of patch components; channels are taken as images of their own.
    count : int, default N_MASTERS
        Number of masters, in the order of the formula, from 1 to 6.
    sigma : float, optional
        Width of the Gaussian in pixels; by default 0.3 (q - 1) / 2 + 0.5, the usual choice for a window of q pixels.
    draws : int, default N_SUBSPACES
        Number of random subspaces.
    seed : int, default 0
        Seed of the random subspaces.

    Returns
    -------
    MasterShare
        Cost O(k c q² count), and a PCA of the patches.

    References
    ----------
    .. [1] arXiv 2412.16751 and 2509.11711, which cluster depthwise filters into eight. We fix the masters before
       looking at any filter; all nulls are ours.

    Examples
    --------
    >>> layer = torch.ones(1, 1, 3, 3)
    >>> result = master_filters(layer, torch.rand(8, 1, 6, 6, generator=torch.Generator().manual_seed(0)), count=3)
    >>> round(result.share, 2)  # of a flat filter, by a Gaussian and its first derivatives
    0.74
    """
    q = filters.shape[2]
    rows = filters.detach().cpu().double().reshape(-1, q * q)
    if filters.shape[3] != q or q < 3 or not rows.isfinite().all() or not rows.any():
        raise InvalidInput(
            f"`filters` must be square, at least 3 x 3, finite and not zero; got {tuple(filters.shape)}."
        )
    if not 1 <= count <= N_MASTERS or draws < 1:
        raise InvalidInput(
            f"`count` must lie in 1 .. {N_MASTERS} and `draws` be positive; got {count} and {draws}."
        )
    # the usual width of a Gaussian for a window of q pixels, 0.3 ((q - 1)/2 - 1) + 0.8
    masters = _masters(q, 0.3 * (q - 1) / 2 + 0.5 if sigma is None else sigma)[:, :count]
    # channels as images of their own, since filters are taken channel by channel
    single = images.detach().cpu().double().reshape(-1, 1, *images.shape[2:])
    components = patch_pca(single, PatchGeometry.square(q)).basis[:, :count]
    energy = rows.square().sum()
    return MasterShare(
        share=float((rows @ masters).square().sum() / energy),
        patches=float((rows @ components).square().sum() / energy),
        random=torch.stack(
            [(rows @ _subspace(q, count, seed, d)).square().sum() / energy for d in range(draws)]
        ),
        # no span of so many filters can hold more than the leading singular directions
        best=float((torch.linalg.svdvals(rows)[:count].square()).sum() / energy),
        masters=masters.T.reshape(count, q, q),
    )


def _masters(q: int, sigma: float) -> Float[Tensor, "d m"]:
    """Derivatives of a Gaussian at the pixels of a window, made orthonormal in their order."""
    if not sigma > 0:
        raise InvalidInput(f"`sigma` must be positive; got sigma={sigma}.")
    place = (torch.arange(q, dtype=torch.float64) - (q - 1) / 2) / sigma
    y, x = torch.meshgrid(place, place, indexing="ij")
    bell = torch.exp(-(x.square() + y.square()) / 2)
    # Hermite factors of the derivatives: ΔG = (x² + y² - 2) G, (∂x² - ∂y²) G = (x² - y²) G, ∂x∂y G = xy G
    factors = (torch.ones_like(x), x, y, x.square() + y.square() - 2, x.square() - y.square(), x * y)
    columns = torch.stack([(factor * bell).flatten() for factor in factors], dim=1)
    masters: Tensor = torch.linalg.qr(columns).Q
    return masters


def _subspace(q: int, count: int, seed: int, draw: int) -> Float[Tensor, "d m"]:
    generator = generator_from("random subspace", seed, draw)
    basis: Tensor = torch.linalg.qr(torch.randn(q * q, count, generator=generator, dtype=torch.float64)).Q
    return basis
