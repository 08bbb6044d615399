"""Do first layers agree? Correlation of energy profiles, never without its nulls."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.maths.correlation import (
    ChanceBaseline,
    Interval,
    correlation_matrix,
    null_spread,
    pearson,
    percentile_interval,
    permutation_baseline,
)
from firstlight.maths.patches import PatchGeometry, mean_patches
from firstlight.maths.pca import PCA
from firstlight.measures.first_layer.energy_profile import Profile


@dataclass(frozen=True, kw_only=True)
class Agreement(Result):
    """How far two profiles agree, and what agreement would mean nothing.

    Parameters
    ----------
    value : float
        Pearson correlation of the amplitudes.
    interval : Interval
        Bootstrap over filters: other filters of the same kind would give this range.
    chance : ChanceBaseline
        The correlation when components are matched at random.
    without_first : float
        The correlation with the first component left out; one large first component can make it alone.
    band : float
        Two standard deviations of the correlation of unrelated profiles of this length.
    """

    value: float
    interval: Interval
    chance: ChanceBaseline
    without_first: float
    band: float


def agreement(a: Profile, b: Profile, *, seed: int = 0, draws: int = 400) -> Agreement:
    """Compare two profiles measured in bases of the same size.

    Parameters
    ----------
    a : Profile
        One profile.
    b : Profile
        Another; of another network, another width, another data set.
    seed : int, default 0
        Seed for bootstrap and permutations.
    draws : int, default 400
        Number of each.
    """
    if a.amplitude.shape != b.amplitude.shape:
        raise InvalidInput(
            f"profiles must have the same number of components; got {len(a.amplitude)} and {len(b.amplitude)}. "
            "Patches of different sizes have no common components."
        )
    return Agreement(
        value=float(pearson(a.amplitude, b.amplitude)),
        interval=_over_filters(a, b, seed=seed, draws=draws),
        chance=permutation_baseline(a.amplitude, b.amplitude, seed=seed, draws=draws),
        without_first=float(pearson(a.amplitude[1:], b.amplitude[1:])),
        band=2 * null_spread(len(a.amplitude)),
    )


@dataclass(frozen=True, kw_only=True)
class Consistency(Result):
    """Correlation of a whole set of profiles, with rows for the nulls.

    Parameters
    ----------
    names : tuple of str
        Names of the profiles, followed by the two controls.
    matrix : Tensor of shape (rows, rows)
        Pearson correlation of every row with every other.
    without_first : Tensor of shape (rows, rows)
        The same with the first component left out.
    band : float
        Two standard deviations of the correlation of unrelated profiles of this length.
    n_profiles : int
        How many rows are measurements; the rest are controls.
    """

    names: tuple[str, ...]
    matrix: Float[Tensor, "rows rows"]
    without_first: Float[Tensor, "rows rows"]
    band: float
    n_profiles: int

    def pairs(self, *, without_first: bool = False) -> Float[Tensor, " pairs"]:
        """Correlations of all pairs of measurements."""
        matrix = (self.without_first if without_first else self.matrix)[: self.n_profiles, : self.n_profiles]
        above = torch.triu_indices(self.n_profiles, self.n_profiles, offset=1)
        return matrix[above[0], above[1]]


def consistency(profiles: dict[str, Profile]) -> Consistency:
    """Correlate many profiles at once; random filters and the root of the variances are added as rows."""
    if len(profiles) < 2:
        raise InvalidInput(f"consistency needs at least 2 profiles; got {len(profiles)}.")
    amplitudes = [p.amplitude for p in profiles.values()]
    if len({len(e) for e in amplitudes}) > 1:
        raise InvalidInput("profiles must have the same number of components; these do not.")
    first = next(iter(profiles.values()))
    rows = torch.stack([*amplitudes, first.nulls[0], first.root_variance])
    return Consistency(
        names=(*profiles, "random filters", "root of variances"),
        matrix=correlation_matrix(rows),
        without_first=correlation_matrix(rows[:, 1:]),
        band=2 * null_spread(len(amplitudes[0])),
        n_profiles=len(profiles),
    )


def _over_filters(a: Profile, b: Profile, *, seed: int, draws: int) -> Interval:
    """Percentile interval when the filters of both banks are drawn again with replacement."""
    generator = generator_from("filters", seed)
    # ⟨A_j, p_i⟩² of every filter, so that e_i of any draw is the root of a sum of rows
    squares = [(p.filters @ p.pca.basis).square() for p in (a, b)]
    correlations = torch.empty(draws, dtype=torch.float64)
    for i in range(draws):
        amplitudes = []
        for square in squares:
            # filters are the independent units of a profile; its components are not
            chosen = torch.randint(len(square), (len(square),), generator=generator)
            amplitudes.append(square[chosen].sum(0).sqrt())
        correlations[i] = pearson(*amplitudes)
    return percentile_interval(float(pearson(a.amplitude, b.amplitude)), correlations)


def label_correlation(data: ImageData, pca: PCA, geometry: PatchGeometry) -> Float[Tensor, "classes m"]:
    r"""Correlation of average-patch coordinates with class membership.

    .. math:: \mathrm{corr}_i\,(K_{ij},\, 1[y_i = c])

    Rows are classes, columns components. With labels independent of the images the entries have standard
    deviation :math:`1/\sqrt{n}`, which is the null to print beside them.

    Parameters
    ----------
    data : ImageData
        Labelled images; every class must be present.
    pca : PCA
        Patch components of the same geometry.
    geometry : PatchGeometry
        Which patches.

    References
    ----------
    .. [1] FirstLayer, figure 5.
    """
    if (data.counts == 0).any() or data.n_classes < 2:
        raise InvalidInput("every class needs images, and at least two classes; choose another subset.")
    # K → K U: average patches in the coordinates of the components
    coordinates = pca.project(mean_patches(data.x, geometry))
    members = F.one_hot(data.y, data.n_classes).double()
    coordinates = coordinates - coordinates.mean(0)
    members = members - members.mean(0)
    scale = members.norm(dim=0)[:, None] * coordinates.norm(dim=0)[None]
    # a component along which no average patch varies has rounding for coordinates, and correlates with nothing
    tiny = 1e-12 * coordinates.norm()
    correlation: Tensor = (members.mT @ coordinates) / scale.clamp(min=1e-300)
    varies: Tensor = coordinates.norm(dim=0) > tiny
    return correlation * varies
