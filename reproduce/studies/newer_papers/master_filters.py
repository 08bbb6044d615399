"""Filters known in advance: how much of a layer a few derivatives of a Gaussian explain."""

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.shapes import Images
from firstlight.maths.patches import PatchGeometry
from firstlight.maths.pca import patch_pca


def master_shares(filters: Float[Tensor, "k c q q"], images: Images) -> tuple[float, float]:
    r"""Share of a first layer that lies in the span of six master filters, and in that of six patch components.

    .. math:: \sum_{k,c} \|\Pi A_{kc}\|^2 \Big/ \sum_{k,c} \|A_{kc}\|^2, \qquad
              \operatorname{span} \Pi = \{ G, \partial_x G, \partial_y G, \Delta G, (\partial_x^2 - \partial_y^2) G,
              \partial_x \partial_y G \}

    with G a Gaussian. Every channel of a filter counts as a filter of its own, and so do channels of the images, whose
    leading patch components are the null: what their statistics give.

    *What a practitioner does with the number:* where the masters explain nearly all, and more than patch components
    do, try the layer with these filters, frozen.

    References
    ----------
    .. [1] arXiv 2412.16751 and 2509.11711, which cluster depthwise filters into eight. We fix the masters before
       looking at any filter; all nulls are ours.
    """
    q = filters.shape[2]
    rows = filters.detach().cpu().double().reshape(-1, q * q)
    single = images.detach().cpu().double().reshape(-1, 1, *images.shape[2:])
    own = masters(q)
    components = patch_pca(single, PatchGeometry.square(q)).basis[:, : own.shape[1]]
    share, of_patches = (
        float((rows @ part).square().sum() / rows.square().sum()) for part in (own, components)
    )
    return share, of_patches


def masters(q: int) -> Float[Tensor, "d m"]:
    """Derivatives of a Gaussian at the pixels of a window, made orthonormal in their order."""
    # the usual width of a Gaussian for a window of q pixels, 0.3 ((q - 1)/2 - 1) + 0.8
    place = (torch.arange(q, dtype=torch.float64) - (q - 1) / 2) / (0.3 * (q - 1) / 2 + 0.5)
    y, x = torch.meshgrid(place, place, indexing="ij")
    bell = torch.exp(-(x.square() + y.square()) / 2)
    # Hermite factors of the derivatives: ΔG = (x² + y² - 2) G, (∂x² - ∂y²) G = (x² - y²) G, ∂x∂y G = xy G
    factors = (torch.ones_like(x), x, y, x.square() + y.square() - 2, x.square() - y.square(), x * y)
    columns = torch.stack([(factor * bell).flatten() for factor in factors], dim=1)
    basis: Tensor = torch.linalg.qr(columns).Q
    return basis
