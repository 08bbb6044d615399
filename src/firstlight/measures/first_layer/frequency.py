"""Reading filters and components as waves: how fine, and in which direction."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.core.result import Result
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
    low, high = BANDS
    masks = torch.stack([distance < low, (distance >= low) & (distance < high), distance >= high])
    return FrequencyReading(
        radius=(power * distance).sum((1, 2)) / total,
        orientation=torch.where(selectivity > 1e-6, angle, torch.nan),
        selectivity=selectivity,
        bands=torch.einsum("nhw,bhw->nb", power, masks.double()) / total[:, None],
    )


def component_frequencies(profile: Profile) -> FrequencyReading:
    """Reading of every patch component, in their order."""
    return frequency_reading(_as_patches(profile.pca.basis.mT, profile))


def filter_frequencies(profile: Profile) -> FrequencyReading:
    """Reading of every filter."""
    return frequency_reading(_as_patches(profile.filters, profile))


def band_energy(profile: Profile) -> Float[Tensor, " 3"]:
    """Share of the profile's squared energy in low, middle and high frequency."""
    squares = profile.energy.square()
    return (squares[:, None] * component_frequencies(profile).bands).sum(0) / squares.sum()


def _as_patches(rows: Float[Tensor, "n d"], profile: Profile) -> Float[Tensor, "n c h w"]:
    return rows.reshape(len(rows), profile.layer.channels, *profile.layer.size)
