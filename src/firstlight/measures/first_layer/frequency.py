"""Filters and components as waves: how fine, and in which direction."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.measures.first_layer.energy_profile import Profile

GRID = 32  # frequencies per axis at which small patches are sampled
BANDS = (1 / 6, 1 / 3)  # cycles per pixel; the finest wave along an axis has 1/2


@dataclass(frozen=True, kw_only=True)
class FrequencyReading(Result):
    """Spatial frequency of patches, one entry each.

    Parameters
    ----------
    radius : Tensor of shape (n,)
        Mean distance from zero frequency, in cycles per pixel, weighted by power.
    orientation : Tensor of shape (n,)
        Direction of the waves, in radians from 0 (variation along columns) to pi; NaN where no direction
        is preferred.
    selectivity : Tensor of shape (n,)
        0 for none, 1 for a single direction.
    bands : Tensor of shape (n, 3)
        Share of power below 1/6, up to 1/3 and above 1/3 cycles per pixel.
    """

    radius: Float[Tensor, " n"]
    orientation: Float[Tensor, " n"]
    selectivity: Float[Tensor, " n"]
    bands: Float[Tensor, "n 3"]


def frequency_reading(patches: Float[Tensor, "n c h w"]) -> FrequencyReading:
    r"""Where the power of each patch lies in the plane of spatial frequencies.

    The direction comes from the second moments of the power, :math:`\sum |\hat a(f)|^2 f f^\top`: its leading
    eigenvector is the orientation, the normalised gap of its eigenvalues the selectivity. Powers of the
    channels are added. Unchanged by sign and scale.
    """
    power = torch.fft.fft2(patches.double(), s=(GRID, GRID)).abs().square().sum(1)
    axis = torch.fft.fftfreq(GRID, dtype=torch.float64)
    rows, columns = torch.meshgrid(axis, axis, indexing="ij")
    distance = (rows.square() + columns.square()).sqrt()
    total = power.sum((1, 2))
    total = torch.where(total > 0, total, torch.ones_like(total))
    xx, yy, xy = ((power * m).sum((1, 2)) / total for m in (columns**2, rows**2, rows * columns))
    gap = ((xx - yy).square() + 4 * xy.square()).sqrt()
    selectivity = gap / (xx + yy).clamp(min=1e-300)
    angle = torch.remainder(0.5 * torch.atan2(2 * xy, xx - yy), math.pi)
    energies = _band_energies(patches, BANDS)
    return FrequencyReading(
        radius=(power * distance).sum((1, 2)) / total,
        orientation=torch.where(selectivity > 1e-6, angle, torch.nan),
        selectivity=selectivity,
        bands=energies / torch.where(energies.sum(1) > 0, energies.sum(1), 1.0)[:, None],
    )


def component_frequencies(profile: Profile) -> FrequencyReading:
    """Reading of every patch component, in their order."""
    return frequency_reading(_as_patches(profile.pca.basis.mT, profile))


def band_energy(profile: Profile, *, edges: Sequence[float] = BANDS) -> Float[Tensor, " bands"]:
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
    edges : sequence of float, default BANDS
        Radii r that part the bands, rising, in cycles per pixel; at most 1/2, the finest wave along an
        axis. Waves along a diagonal reach 0.71 and belong to the last band.

    Returns
    -------
    Tensor of shape (bands,)
        One more than there are edges; they sum to 1, as Parseval's theorem demands. Exact: no grid of
        frequencies is involved. Unchanged by an orthogonal mixing of the filters.
    """
    radii = [0.0, *edges]
    if len(radii) < 2 or radii[-1] > 0.5 or any(a >= b for a, b in itertools.pairwise(radii)):
        raise InvalidInput(
            f"`edges` must rise and lie in 0 .. 1/2 cycles per pixel; got edges={tuple(edges)}. "
            "The finest wave along an axis has 1/2."
        )
    basis = profile.pca.basis
    filters = profile.filters if basis.shape[1] == basis.shape[0] else profile.filters @ basis @ basis.mT
    energies = _band_energies(_as_patches(filters, profile), edges).sum(0)
    return energies / energies.sum()


def _band_energies(patches: Float[Tensor, "n c h w"], edges: Sequence[float]) -> Float[Tensor, "n bands"]:
    r"""Energy of each patch between circles around zero frequency, all channels together.

    The spectrum of a patch is a trigonometric polynomial, so its integral over the disc of radius R is a
    quadratic form in the pixels with the matrix :math:`K_R(x - x') = R\,J_1(2\pi R|x-x'|) / |x-x'|`, the
    Fourier transform of the disc. Over all frequencies it is the identity.
    """
    n, _, h, w = patches.shape
    rows = patches.double().flatten(2)
    grid = torch.cartesian_prod(torch.arange(h), torch.arange(w)).reshape(-1, 2).double()
    distances = torch.cdist(grid, grid)
    inside = [rows.new_zeros(n)]
    for radius in edges:
        # J1(z) is z/2 near 0, so the limit on the diagonal is the area of the disc
        apart = torch.where(distances > 0, distances, 1.0)
        kernel = radius * torch.special.bessel_j1(2 * math.pi * radius * apart) / apart
        kernel = torch.where(distances > 0, kernel, math.pi * radius**2)
        inside.append(((rows @ kernel) * rows).sum((1, 2)))
    inside.append(rows.square().sum((1, 2)))
    return torch.stack(inside, 1).diff(dim=1).clamp(min=0)  # rounding may leave -1e-17 in an empty band


def _as_patches(rows: Float[Tensor, "n d"], profile: Profile) -> Float[Tensor, "n c h w"]:
    return rows.reshape(len(rows), profile.layer.channels, *profile.layer.size)
