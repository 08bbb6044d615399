"""What a feature matrix looks at: maps over images, eigenvectors as pictures, likeness to an edge detector."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F

from firstlight._internal.autograd.forward_recorder import Call, Recorder
from firstlight._internal.autograd.layers import range_basis
from firstlight._internal.autograd.model_outputs import run
from firstlight._internal.autograd.model_state import evaluating, in_full_precision
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.shapes import Images
from firstlight.maths.correlation import pearson
from firstlight.maths.filter_similarity import FiltersInSingularBasis
from firstlight.maths.patches import PatchGeometry, extract_patches, sobel_magnitude
from firstlight.maths.psd import psd_sqrt
from firstlight.measures.feature_ansatz.patch_gradients import LayerGradients

Maps = Float[Tensor, "n h w"]


def patch_operator_map(
    matrix: Float[Tensor, "d d"],
    images: Images,
    geometry: PatchGeometry,
) -> Float[Tensor, "n rows columns"]:
    r"""Norm of :math:`M^{1/2} x[p]` at every position: what M finds large in an image.

    Parameters
    ----------
    matrix : Tensor of shape (d, d)
        M, symmetric and positive semidefinite, over patches in the order (channel, row, column).
    images : Tensor of shape (n, c, h, w)
        Images or feature maps.
    geometry : PatchGeometry
        Geometry of the patches.

    Notes
    -----
    For a layer of a network use :func:`layer_maps`, which needs one convolution and no square root.

    References
    ----------
    .. [1] CNFA, section 2.2. The paper uses both M and its root (E-52), and leaves the norm open (E-57).
    """
    # x[p] → M^½ x[p], whose norm is (x[p]ᵀ M x[p])^½
    seen = extract_patches(images.double(), geometry) @ psd_sqrt(matrix.double())
    h, w = geometry.positions(*images.shape[2:])
    return seen.square().sum(2).sqrt().reshape(len(images), h, w)


@dataclass(frozen=True, kw_only=True)
class LayerMaps(Result):
    """What a layer's filters and its gradients look at, in the same images.

    Parameters
    ----------
    name : str
        Name of the layer.
    features : Maps
        Map of the feature matrix.
    gradients : Maps
        Map of the gradient outer product.
    agreement : Tensor of shape (n,)
        Pearson correlation of the two over all positions, image by image.
    sobel : Tensor of shape (n,)
        Pearson correlation of the feature map with the edge strength of the image, image by image.
    gradient_sobel : Tensor of shape (n,)
        The same of the gradient map.
    """

    name: str
    features: Maps
    gradients: Maps
    agreement: Float[Tensor, " n"]
    sobel: Float[Tensor, " n"]
    gradient_sobel: Float[Tensor, " n"]


@follows_device
def layer_maps(model: nn.Module, layers: Sequence[LayerGradients], images: Images) -> tuple[LayerMaps, ...]:
    r"""Maps of :math:`\|M^{1/2} h[p]\|` for both matrices of each two-dimensional convolution.

    With :math:`z = W h[p]` these are :math:`\|z\|` and :math:`(z^\top Q z)^{1/2}`: the layer's own
    outputs without their bias hold all that is needed. Images where a map is constant have a correlation of 0.

    Parameters
    ----------
    model : torch.nn.Module
        As it was measured.
    layers : sequence of LayerGradients
        From :func:`firstlight.measures.feature_ansatz.patch_gradients.patch_gradients`; others than convolutions
        over images are left out.
    images : Tensor of shape (n, c, h, w)
        As the model wants them.
    """
    wanted = {layer.name for layer in layers}
    model, _ = in_full_precision(model)
    parameter = next(model.parameters())
    images = images.to(parameter.device, parameter.dtype)
    recorder = Recorder(model)
    responses: dict[str, Tensor] = {}

    def keep(call: Call) -> None:
        if call.layer.name in wanted and call.layer.weight.ndim == 4 and call.outputs.ndim == 4:
            # z = W h[p] alone: the bias is no part of what the patch makes the layer see
            bias = 0 if call.bias is None else call.bias[:, None, None]
            responses[call.layer.name] = (call.outputs - bias).cpu().double()

    with evaluating(model), torch.no_grad():
        run(model, images[:1], forward=recorder.discover)
        recorder.look_at(keep)
        recorder.forward(images)
    edges = sobel_map(images)
    return tuple(_maps_of(layer, responses[layer.name], edges) for layer in layers if layer.name in responses)


def _maps_of(
    layer: LayerGradients, z: Float[Tensor, "n k h w"], edges: Float[Tensor, "n rows columns"]
) -> LayerMaps:
    # ‖(WᵀW)^½ h[p]‖² = h[p]ᵀWᵀW h[p] = ‖z‖²: no square root of a d x d matrix is taken
    grouped = z.reshape(len(z), len(layer.filters), -1, *z.shape[2:])
    features = z.square().sum(1).sqrt()
    if (basis := range_basis(layer.filters)) is not None:
        # z → Uᵀz, since Q is known in the basis U of the outputs that the layer can give
        grouped = torch.einsum("ngkhw,gkr->ngrhw", grouped, basis)
    # ‖(WᵀQW)^½ h[p]‖² = zᵀQz, summed over groups; rounding may leave it below 0
    weighted = torch.einsum("ngkhw,gkl,nglhw->nhw", grouped, layer.covariance, grouped)
    gradients = weighted.clamp(min=0).sqrt()
    h, w = features.shape[1:]
    # layers behind a stride have smaller maps: contours are averaged over the area of one position
    contour = F.adaptive_avg_pool2d(edges, (h, w))
    return LayerMaps(
        name=layer.name,
        features=features,
        gradients=gradients,
        agreement=_alike(features, gradients),
        sobel=_alike(features, contour),
        gradient_sobel=_alike(gradients, contour),
    )


def sobel_map(images: Images) -> Maps:
    """Strength of the intensity gradient by Sobel's filters, of the mean over channels.

    Examples
    --------
    >>> step = torch.tensor([0.0, 0.0, 1.0, 1.0]).expand(1, 1, 4, 4)
    >>> sobel_map(step)[0, 1]
    tensor([0., 4., 4., 0.], dtype=torch.float64)
    """
    return sobel_magnitude(images.detach().cpu().double().mean(1, keepdim=True))[:, 0]


def _alike(a: Maps, b: Maps) -> Float[Tensor, " n"]:
    rows = []
    for first, second in zip(a.flatten(1), b.flatten(1), strict=True):
        is_flat = min(float(first.max() - first.min()), float(second.max() - second.min())) == 0
        rows.append(0.0 if is_flat else float(pearson(first, second)))
    return torch.tensor(rows, dtype=torch.float64)


@dataclass(frozen=True, kw_only=True)
class Eigenvectors(Result):
    """Leading eigenvectors of a matrix over patches.

    Parameters
    ----------
    name : str
        Name of the layer.
    kind : str
        "features" or "gradients".
    values : Tensor of shape (m,)
        By decreasing size, as shares of the trace.
    vectors : Tensor of shape (m, ...)
        Orthonormal, each in the shape of a filter of the layer.
    constant : Tensor of shape (m,)
        Share of each vector's norm that answers a flat patch, channel by channel; an edge detector has
        less than 0.1.
    """

    name: str
    kind: str
    values: Float[Tensor, " m"]
    vectors: Float[Tensor, "m *shape"]
    constant: Float[Tensor, " m"]


def top_eigenvectors(layer: LayerGradients, *, kind: str = "gradients", count: int = 8) -> Eigenvectors:
    r"""Leading eigenvectors of a layer's feature matrix or gradient outer product.

    Found from the r x r matrix :math:`S \tilde Q S` in the basis of singular vectors, r = min(k, d), so
    that no d x d matrix is formed. With groups, the leading ones over all groups. The sign makes the
    largest entry positive.
    """
    if kind not in ("features", "gradients"):
        raise InvalidInput(f"`kind` must be 'features' or 'gradients'; got {kind!r}.")
    filters = FiltersInSingularBasis.of(layer.reduced)
    roots = filters.squares.sqrt()
    # V S → V, with zero columns where a singular value vanishes
    right = filters.right / torch.where(roots > 0, roots, 1.0)[:, None, :]
    if kind == "features":
        # WᵀW = V S² Vᵀ is diagonal in V
        inner = torch.diag_embed(filters.squares)
    else:
        # WᵀQW = V (S Q̃ S) Vᵀ: its eigenvectors are V times those of the r x r matrix
        inner = roots[:, :, None] * filters.inner(layer.covariance) * roots[:, None, :]
    values, vectors = torch.linalg.eigh((inner + inner.mT) / 2)
    trace = values.clamp(min=0).sum()
    order = values.flatten().argsort(descending=True)[:count]
    columns = (right @ vectors).mT.flatten(0, 1)[order]
    # an eigenvector has no sign: without a rule, two runs could show one picture and its negative
    peak = columns.gather(1, columns.abs().argmax(1, keepdim=True))
    shaped = (columns * peak.sign()).reshape(len(columns), *layer.shape)
    return Eigenvectors(
        name=layer.name,
        kind=kind,
        values=values.flatten()[order].clamp(min=0) / trace,
        vectors=shaped,
        constant=constant_share(shaped),
    )


def constant_share(vectors: Float[Tensor, "m *shape"]) -> Float[Tensor, " m"]:
    """Share of the norm of each vector that lies along constant channels; 1 for a linear layer's.

    Examples
    --------
    >>> constant_share(torch.tensor([[[[1.0, -1.0]]], [[[1.0, 1.0]]]]))
    tensor([0., 1.])
    """
    # projection onto images that are constant in each channel: mean times the all-ones vector of norm √(q·q)
    means = vectors.flatten(2).mean(2) if vectors.ndim > 2 else vectors
    area = vectors[0, 0].numel() if vectors.ndim > 2 else 1
    return (means.square().sum(1) * area).sqrt() / vectors.flatten(1).square().sum(1).sqrt()
