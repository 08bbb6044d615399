"""Do first layers agree? Correlation of energy profiles, never without its nulls."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.maths.correlation import (
    Interval,
    correlation_matrix,
    null_spread,
    pearson,
    percentile_interval,
)
from firstlight.measures.first_layer.energy_profile import Profile

DRAWS = 400


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


def agreement(a: Profile, b: Profile, *, seed: int = 0) -> Interval:
    """Correlation of two profiles, with the percentile interval when the filters of both banks are drawn again.

    Parameters
    ----------
    a, b : Profile
        Measured in bases of the same size.
    seed : int, default 0
        Seed for the bootstrap over filters.
    """
    if a.amplitude.shape != b.amplitude.shape:
        raise InvalidInput(
            f"profiles must have the same number of components; got {len(a.amplitude)} and {len(b.amplitude)}. "
            "Patches of different sizes have no common components."
        )
    generator = generator_from("filters", seed)
    # ⟨A_j, p_i⟩² of every filter, so that e_i of any draw is the root of a sum of rows
    squares = [(p.filters @ p.pca.basis).square() for p in (a, b)]
    correlations = torch.empty(DRAWS, dtype=torch.float64)
    for i in range(DRAWS):
        amplitudes = []
        for square in squares:
            # filters are the independent units of a profile; its components are not
            chosen = torch.randint(len(square), (len(square),), generator=generator)
            amplitudes.append(square[chosen].sum(0).sqrt())
        correlations[i] = pearson(*amplitudes)
    return percentile_interval(float(pearson(a.amplitude, b.amplitude)), correlations)
