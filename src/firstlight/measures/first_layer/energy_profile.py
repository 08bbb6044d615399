"""The energy of a filter bank along the principal components of the patches it sees."""

import dataclasses
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.maths.correlation import pearson
from firstlight.maths.pca import PCA, patch_pca, separated_blocks
from firstlight.measures.first_layer.first_convolution import (
    Convolution,
    first_convolution,
    inputs_of_first_convolution,
    spread_groups,
)
from firstlight.models.wrappers import unwrapped

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
    difference : bool
        Whether initial weights were subtracted.
    nulls : Tensor of shape (draws, m)
        Profiles of random filters of the same shape and scale, one row per draw.
    root_variance : Tensor of shape (m,)
        Square roots of the patch variances, which one gradient step alone imprints.
    blocks : tuple of tuple of 2 int
        Runs of components (half-open) whose variances the data cannot tell apart.
    """

    amplitude: Float[Tensor, " m"]
    pca: PCA
    layer: Convolution
    filters: Float[Tensor, "k d"]
    difference: bool
    nulls: Float[Tensor, "draws m"]
    root_variance: Float[Tensor, " m"]
    blocks: tuple[tuple[int, int], ...]

    @property
    def normalised(self) -> Float[Tensor, " m"]:
        """The profile scaled to a maximum of 1."""
        return self.amplitude / self.amplitude.max()

    @property
    def block_energy(self) -> Float[Tensor, " blocks"]:
        """Energy summed within runs of components that are not separated: independent of their rotation."""
        squares = self.amplitude.square()
        return torch.stack([squares[a:b].sum().sqrt() for a, b in self.blocks])

    @property
    def unseparated(self) -> tuple[tuple[int, int], ...]:
        """Runs of two and more components inside which single energies have no meaning."""
        return tuple((a, b) for a, b in self.blocks if b - a > 1)

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
def patch_basis(
    model: nn.Module, data: ImagesLike, *, center: bool = True, n_images: int = N_IMAGES
) -> tuple[Convolution, PCA]:
    """The first convolution of a model, and the components of the patches that reach it.

    Patches are taken from what the layer really sees: after any normalisation inside the model, with
    its own padding and stride.
    """
    data = tensor_or_images(data)
    images = data.x if isinstance(data, ImageData) else data
    images = images[:n_images]
    layer = first_convolution(model, images)
    seen = (block.detach().cpu() for block in inputs_of_first_convolution(model, images))
    return layer, patch_pca(seen, layer.geometry, center=center)


@follows_device
def profile(
    model: nn.Module,
    data: ImagesLike,
    *,
    subtract: nn.Module | Tensor | None = None,
    center: bool = True,
    n_images: int = N_IMAGES,
    seed: int = 0,
) -> Profile:
    """Energy profile of the first convolution of any model.

    Parameters
    ----------
    model : torch.nn.Module
        Any module whose forward pass meets a two-dimensional convolution.
    data : Tensor, ImageData, Dataset, DataLoader, folder and others
        The images that the model is for, scaled as it expects them, in any form that
        :func:`firstlight.data.as_images` takes.
    subtract : torch.nn.Module or Tensor, optional
        The initial model, or the initial weight of that layer; the profile is then that of the
        accumulated update. After one step this is the root of the patch variances whatever was learned:
        compare with :meth:`Profile.controls`.
    center : bool, default True
        Remove the mean patch from the basis.
    n_images : int, default N_IMAGES
        Maximum number of images for the basis.
    seed : int, default 0
        Seed for the random filters that serve as null.
    """
    data, model = tensor_or_images(data), unwrapped(model)
    layer, pca = patch_basis(model, data, center=center, n_images=n_images)
    return profile_from(layer, pca, subtract=subtract, like=data, seed=seed)


def profile_from(
    layer: Convolution,
    pca: PCA,
    *,
    subtract: nn.Module | Tensor | None = None,
    like: ImageData | Tensor | None = None,
    seed: int = 0,
) -> Profile:
    """Profile of a convolution in a given basis; `like` holds images to trace `subtract` with."""
    filters = layer.filters.cpu().double()
    if subtract is not None:
        filters = filters - _initial_filters(subtract, layer, like)
    scale = filters.square().mean().sqrt()
    if scale == 0:
        raise InvalidInput(
            "the filters equal the initial ones, so the update has no profile. Train the model first."
        )
    generator = generator_from("profile null", seed)
    shape = (N_NULLS, *layer.weight.shape)
    random = scale * torch.randn(shape, generator=generator, dtype=torch.float64)
    nulls = [energy_profile(spread_groups(draw, layer.groups), pca.basis) for draw in random]
    return Profile(
        amplitude=energy_profile(filters, pca.basis),
        pca=pca,
        layer=layer,
        filters=filters,
        difference=subtract is not None,
        nulls=torch.stack(nulls),
        root_variance=pca.variances.sqrt(),
        blocks=tuple(separated_blocks(pca.variances, n_samples=pca.n_samples)),
    )


def _initial_filters(
    subtract: nn.Module | Tensor, layer: Convolution, like: ImageData | Tensor | None
) -> Tensor:
    if isinstance(subtract, Tensor):
        weight = subtract
    else:
        assert like is not None, "tracing the initial model needs images"
        weight = first_convolution(subtract, like.x if isinstance(like, ImageData) else like).weight
    if weight.shape != layer.weight.shape:
        raise InvalidInput(
            f"`subtract` must have the shape of the layer, {tuple(layer.weight.shape)}; "
            f"got {tuple(weight.shape)}."
        )
    return spread_groups(weight.detach().cpu().double(), layer.groups)


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


def windowed(profile: Profile, *, first: int, last: int) -> Profile:
    """The same profile restricted to components `first` to `last`, counted from 1, both included."""
    if not 1 <= first <= last <= len(profile.amplitude):
        raise InvalidInput(
            f"`first` and `last` must lie in 1 .. {len(profile.amplitude)}; got {first} and {last}."
        )
    a, b = first - 1, last
    kept = tuple((max(i, a) - a, min(j, b) - a) for i, j in profile.blocks if j > a and i < b)
    pca = dataclasses.replace(
        profile.pca, basis=profile.pca.basis[:, a:b], variances=profile.pca.variances[a:b]
    )
    return dataclasses.replace(
        profile,
        amplitude=profile.amplitude[a:b],
        pca=pca,
        nulls=profile.nulls[:, a:b],
        root_variance=profile.root_variance[a:b],
        blocks=kept,
    )
