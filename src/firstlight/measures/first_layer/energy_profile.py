"""The energy of a filter bank along the principal components of the patches it sees, and their frequencies."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_state import without_autocast
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.maths.correlation import pearson
from firstlight.maths.pca import PCA, patch_pca
from firstlight.measures.first_layer.first_convolution import (
    Convolution,
    first_layer,
    inputs_of_first_layer,
    spread_groups,
    two_dimensional,
)
from firstlight.models.kinds import as_network

N_IMAGES = 10_000  # ample for a patch basis
N_NULLS = 32


def energy_profile(filters: Float[Tensor, "k d"], basis: Float[Tensor, "d m"]) -> Float[Tensor, " m"]:
    r"""Amplitude of a filter bank along each principal component of the patches, the paper's energy profile.

    .. math:: e_i = \Big(\sum_j \langle A_j, p_i\rangle^2\Big)^{1/2}

    Unchanged when an orthogonal matrix mixes the filters; scales linearly. The paper calls :math:`e_i` an energy; the
    energy is its square, the diagonal of the feature matrix :math:`A^\top A` in the basis of the components.

    Parameters
    ----------
    filters : Tensor of shape (k, d)
        One filter per row, flattened as (c, h, w).
    basis : Tensor of shape (d, m)
        Orthonormal columns p_i, by decreasing variance.

    Returns
    -------
    Tensor of shape (m,)
        Non-negative, in the order of `basis`, in the precision of `filters`. Cost O(k d m).

    References
    ----------
    .. [1] FirstLayer, section 2, eq. (1). We do not normalise the profile.

    Examples
    --------
    >>> energy_profile(torch.eye(3), torch.eye(3))
    tensor([1., 1., 1.])
    """
    # A → A U → e: the norm of each column of A U
    return (filters @ basis).square().sum(0).sqrt()


@dataclass(frozen=True, kw_only=True)
class Profile(Result):
    """The energy profile of a first layer, with the controls that could explain it away.

    Parameters
    ----------
    amplitude : Tensor of shape (m,)
        Along each component, by decreasing variance of the patches.
    pca : PCA
        The patch components.
    layer : Convolution
        The convolution that was measured.
    filters : Tensor of shape (k, d)
        The rows that were measured: the weights, or their difference to the initial ones.
    nulls : Tensor of shape (draws, m)
        Profiles of random filters of the same shape and scale, one row per draw.
    root_variance : Tensor of shape (m,)
        Square roots of the patch variances, which one gradient step alone imprints.
    """

    amplitude: Float[Tensor, " m"]
    pca: PCA
    layer: Convolution
    filters: Float[Tensor, "k d"]
    nulls: Float[Tensor, "draws m"]
    root_variance: Float[Tensor, " m"]

    @property
    def normalised(self) -> Float[Tensor, " m"]:
        """The profile scaled to a maximum of 1."""
        return self.amplitude / self.amplitude.max()

    def controls(self) -> dict[str, float]:
        """Correlation of the profile with what is no evidence of learning."""
        null = pearson(self.amplitude.expand_as(self.nulls), self.nulls)
        root = pearson(self.amplitude, self.root_variance)
        rest = pearson(self.amplitude[1:], self.root_variance[1:])
        return {
            "random filters": float(null.mean()),
            "random filters, sd": float(null.std()),
            "root of variances": float(root),
            "root of variances, first component left out": float(rest),
        }


@follows_device
def patch_basis(model: nn.Module, data: ImagesLike, *, n_images: int = N_IMAGES) -> tuple[Convolution, PCA]:
    """The first layer of a model, and the components of the patches that reach it.

    Patches are taken from what the layer really sees: after any normalisation inside the model, with
    its own padding and stride.
    """
    data = tensor_or_images(data)
    inputs = (data.x if isinstance(data, ImageData) else data)[:n_images]
    layer = first_layer(model, inputs[:1]).convolution()
    return layer, patch_pca(inputs_of_first_layer(model, inputs), layer.geometry)


@follows_device
def profile(
    model: nn.Module | Tensor,
    data: ImagesLike,
    *,
    subtract: nn.Module | Tensor | None = None,
    n_images: int = N_IMAGES,
    seed: int = 0,
) -> Profile:
    """Energy profile of the first layer of any model.

    Parameters
    ----------
    model : torch.nn.Module or Tensor
        Any module whose forward pass meets a convolution in one, two or three dimensions, or, if it meets
        none, a linear layer over tokens, as transformers have that cut images into patches. Or the filters alone,
        as PyTorch shapes the weight of a convolution; they are applied without stride and padding.
    data : Tensor, ImageData, Dataset, DataLoader, folder and others
        What the model is for, scaled as it expects it: images in any form that
        :func:`firstlight.data.as_images` takes, signals as a tensor ``n c l``, volumes as ``n c d h w``.
    subtract : torch.nn.Module or Tensor, optional
        The initial model, or the initial weight of that layer; the profile is then that of the
        accumulated update. After one step this is the root of the patch variances whatever was learned:
        compare with :meth:`Profile.controls`.
    n_images : int, default N_IMAGES
        Maximum number of images for the basis.
    seed : int, default 0
        Seed for the random filters that serve as null.

    Examples
    --------
    >>> signals = torch.randn(20, 2, 30, generator=torch.Generator().manual_seed(0))
    >>> profile(nn.Sequential(nn.Conv1d(2, 4, 5), nn.ReLU()), signals).amplitude.shape
    torch.Size([10])
    """
    data = tensor_or_images(data)
    inputs = data.x if isinstance(data, ImageData) else data
    model = _layer_of(model, inputs) if isinstance(model, Tensor) else as_network(model)
    if inputs.ndim < 3 or len(inputs) == 0:
        raise InvalidInput(
            f"`data` must hold images, signals or volumes, at least one; got a shape of {tuple(inputs.shape)}."
        )
    before = [] if subtract is None or isinstance(subtract, Tensor) else [as_network(subtract)]
    with without_autocast(model, *before):
        layer, pca = patch_basis(model, inputs, n_images=n_images)
        weight = first_layer(before[0], inputs[:1]).weight if before else subtract
    assert not isinstance(weight, nn.Module)
    return profile_from(layer, pca, subtract=weight, seed=seed)


def _layer_of(weight: Tensor, inputs: Tensor) -> nn.Module:
    """A convolution with these filters over these inputs."""
    kinds: dict[int, Any] = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
    groups, rest = divmod(inputs.shape[1], weight.shape[1]) if weight.ndim == inputs.ndim else (0, 1)
    if (
        weight.ndim not in kinds
        or rest
        or not groups
        or len(weight) % groups
        or not weight.is_floating_point()
    ):
        raise InvalidInput(
            "the filters must be shaped as the weight of a convolution over the data (filters, channels, then sides) "
            f"and hold floating-point numbers; got {tuple(weight.shape)} in {weight.dtype} for data of "
            f"{tuple(inputs.shape)}."
        )
    layer: nn.Module = kinds[weight.ndim](
        inputs.shape[1], len(weight), tuple(weight.shape[2:]), groups=groups, bias=False
    )
    layer.weight = nn.Parameter(weight.detach().clone())
    return layer


def profile_from(layer: Convolution, pca: PCA, *, subtract: Tensor | None = None, seed: int = 0) -> Profile:
    """Profile of a convolution in a given basis, or of its difference to an initial weight."""
    filters = layer.filters.cpu().double()
    if subtract is not None:
        initial = two_dimensional(subtract.detach().cpu().double())
        if initial.shape != layer.weight.shape:
            raise InvalidInput(
                f"`subtract` must have the shape of the layer, {tuple(layer.weight.shape)}; "
                f"got {tuple(initial.shape)}."
            )
        filters = filters - spread_groups(initial, layer.groups)
    scale = filters.square().mean().sqrt()
    if scale == 0:
        raise InvalidInput(
            "the filters equal the initial ones, so the update has no profile. Train the model first."
        )
    generator = generator_from("profile null", seed)
    shape = (N_NULLS, *layer.weight.shape)
    # random filters of the same root mean square: the profile scales linearly, so that only its shape can differ
    random = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    # groups see their own channels only, so that random filters get the same zeros as the layer
    nulls = [energy_profile(spread_groups(draw, layer.groups), pca.basis) for draw in random]
    return Profile(
        amplitude=energy_profile(filters, pca.basis),
        pca=pca,
        layer=layer,
        filters=filters,
        nulls=torch.stack(nulls),
        root_variance=pca.variances.sqrt(),
    )


def profiles_over_time(
    weights: Float[Tensor, "t k c h w"], profile: Profile, *, subtract_first: bool = False
) -> Float[Tensor, "t m"]:
    """Profile of every snapshot of the layer's weight, in the basis of `profile`.

    With `subtract_first` the first snapshot is taken off, which shows which components grow first.
    """
    start = weights[:1] if subtract_first else torch.zeros_like(weights[:1])
    moved = (weights - start).double()
    rows = [energy_profile(spread_groups(w, profile.layer.groups), profile.pca.basis) for w in moved]
    return torch.stack(rows)


BANDS = (
    1 / 6,
    1 / 3,
)  # radii that part the bands, in cycles per pixel; the finest wave along an axis has 1/2


def band_energy(profile: Profile) -> Float[Tensor, " 3"]:
    r"""Share of the filters' energy in each band of spatial frequency, from coarse to fine.

    .. math:: s_b = \frac{\sum_j \int_{B_b} |\hat A_j(f)|^2 \, df}{\sum_j \|A_j\|^2}, \qquad
              B_b = \{f : r_{b-1} \le |f| < r_b\}

    Taken from the spectrum of the filters themselves. Spectra of the components, weighted by the profile,
    would not do: several components share a frequency, and a filter is a sum of them, so the cross
    terms between components belong to its spectrum.

    Parameters
    ----------
    profile : Profile
        Profile of a first layer; with fewer components than a patch has entries, the filters are projected
        onto them.

    Returns
    -------
    Tensor of shape (3,)
        Below 1/6, up to 1/3 and above 1/3 cycles per pixel; waves along a diagonal reach 0.71. They sum to 1,
        as Parseval's theorem demands. Exact: no grid of frequencies is involved. Unchanged by an orthogonal
        mixing of the filters.
    """
    basis = profile.pca.basis
    filters = profile.filters if basis.shape[1] == basis.shape[0] else profile.filters @ basis @ basis.mT
    patches = filters.reshape(len(filters), profile.layer.channels, -1)
    energies = _band_energies(patches, profile.layer.size)
    return energies / energies.sum()


def _band_energies(rows: Float[Tensor, "n c p"], size: tuple[int, int]) -> Float[Tensor, " 3"]:
    r"""Energy of patches between circles around zero frequency, all channels together.

    The spectrum of a patch is a trigonometric polynomial, so its integral over the disc of radius R is a
    quadratic form in the pixels with the matrix :math:`K_R(x - x') = R\,J_1(2\pi R|x-x'|) / |x-x'|`, the
    Fourier transform of the disc. Over all frequencies it is the identity.
    """
    grid = torch.cartesian_prod(*map(torch.arange, size)).reshape(-1, 2).double()
    distances = torch.cdist(grid, grid)
    inside = [rows.new_zeros(())]
    for radius in BANDS:
        # J1(z) is z/2 near 0, so the limit on the diagonal is the area of the disc
        apart = torch.where(distances > 0, distances, 1.0)
        kernel = radius * torch.special.bessel_j1(2 * math.pi * radius * apart) / apart
        kernel = torch.where(distances > 0, kernel, math.pi * radius**2)
        inside.append(((rows @ kernel) * rows).sum())
    inside.append(rows.square().sum())
    return torch.stack(inside).diff().clamp(min=0)  # rounding may leave -1e-17 in an empty band
