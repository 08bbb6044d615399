"""Correlation of vectors and of the rows of matrices, with intervals and the baseline of chance."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from statistics import NormalDist

import torch
from jaxtyping import Bool, Float, Num
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from

Rows = Num[Tensor, "*rows d"]
Statistic = Callable[[Tensor, Tensor], Tensor]

_EPS = torch.finfo(torch.float64).eps


@dataclass(frozen=True, kw_only=True)
class Interval(Result):
    """A number with the range it may lie in.

    Parameters
    ----------
    value : float
        The estimate itself.
    low : float
        Lower end.
    high : float
        Upper end.
    level : float, default 0.95
        Share of repetitions in which such a range covers the truth.
    """

    value: float
    low: float
    high: float
    level: float = 0.95

    def percent(self, digits: int = 0) -> str:
        """A share in words, with its range.

        Examples
        --------
        >>> Interval(value=0.91, low=0.882, high=0.934).percent()
        '91% (88% to 93%)'
        """
        value, low, high = (f"{share:.{digits}%}" for share in (self.value, self.low, self.high))
        return f"{value} ({low} to {high})"


@dataclass(frozen=True, kw_only=True, eq=False)
class ChanceBaseline(Result):
    """What a statistic gives when the pairing of the entries is random.

    Parameters
    ----------
    value : float
        The statistic of the pairing as it is.
    draws : Tensor of shape (draws,)
        The statistic of each random pairing.
    p_value : float
        Share of pairings, the true one included, at least as far from zero.
    """

    value: float
    draws: Float[Tensor, " draws"]
    p_value: float

    @property
    def spread(self) -> float:
        """Standard deviation over the random pairings."""
        return float(self.draws.std(correction=0))


def share_interval(hits: int, n: int) -> Interval:
    """Share of hits with Wilson's interval, which stays in [0, 1] and holds for small numbers too.

    Examples
    --------
    >>> [round(bound, 3) for bound in (share_interval(9, 10).low, share_interval(9, 10).high)]
    [0.596, 0.982]
    """
    z = NormalDist().inv_cdf(0.975)
    share = hits / n
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return Interval(value=share, low=max(0.0, centre - half), high=min(1.0, centre + half))


def pearson(a: Rows, b: Rows) -> Float[Tensor, "*rows"]:
    r"""Pearson correlation of vectors, or of corresponding rows of matrices.

    .. math:: r = \frac{\langle a-\bar a,\, b-\bar b\rangle}{\|a-\bar a\|\,\|b-\bar b\|}

    Unchanged when either side is shifted or scaled by a positive number. Computed in float64.

    Examples
    --------
    >>> pearson(torch.tensor([1.0, 2.0, 3.0]), torch.tensor([2.0, 4.0, 6.5])).item()
    0.997...
    """
    _check_pair(a, b)
    return (_standard(a, "a") * _standard(b, "b")).sum(-1).clamp(-1, 1)


def spearman(a: Rows, b: Rows) -> Float[Tensor, "*rows"]:
    """Pearson correlation of the ranks; equal entries share the mean of their ranks.

    Unchanged under any increasing map of either side.
    """
    _check_pair(a, b)
    return (_standard(ranks(a), "a") * _standard(ranks(b), "b")).sum(-1).clamp(-1, 1)


def cosine(a: Rows, b: Rows) -> Float[Tensor, "*rows"]:
    r"""Cosine of the angle, :math:`\langle a, b\rangle / (\|a\|\|b\|)`, of vectors or corresponding rows.

    Unlike :func:`pearson` it sees the mean: the two disagree where a common offset dominates.
    """
    _check_pair(a, b)
    return (_unit(a.double(), "a") * _unit(b.double(), "b")).sum(-1).clamp(-1, 1)


def correlation_matrix(rows: Num[Tensor, "n d"]) -> Float[Tensor, "n n"]:
    """Pearson correlation of every row with every other. Cost O(n² d), float64."""
    _check_pair(rows, rows)
    standard = _standard(rows, "rows")
    matrix = (standard @ standard.T).clamp(-1, 1)
    return matrix.fill_diagonal_(1.0)


def ranks(values: Rows) -> Float[Tensor, "*rows d"]:
    """Ranks from 1 along the last axis; equal entries get the mean of the ranks they take.

    Examples
    --------
    >>> ranks(torch.tensor([0.5, 0.1, 0.5]))
    tensor([2.5000, 1.0000, 2.5000], dtype=torch.float64)
    """
    flat = values.double().reshape(-1, values.shape[-1]).contiguous()
    ordered = flat.sort(dim=-1).values
    # equal values share the mean of their ranks, (below + 1 + upto) / 2
    below = torch.searchsorted(ordered, flat)
    upto = torch.searchsorted(ordered, flat, right=True)
    return ((below + upto + 1).double() / 2).reshape(values.shape)


def null_spread(d: int) -> float:
    r"""Standard deviation of the correlation of two unrelated profiles, :math:`1/\sqrt{d-1}`.

    A correlation within two of these of zero cannot be told from chance.

    Examples
    --------
    >>> round(null_spread(27), 3)
    0.196
    """
    if d < 3:
        raise InvalidInput(f"`d` must be at least 3 entries for a correlation to mean anything; got d={d}.")
    return 1 / math.sqrt(d - 1)


def bootstrap_interval(
    a: Num[Tensor, " n"],
    b: Num[Tensor, " n"],
    *,
    seed: int,
    draws: int = 1000,
) -> Interval:
    """Percentile interval of :func:`pearson` over pairs drawn again with replacement.

    Parameters
    ----------
    a : Tensor of shape (n,)
        One entry per pair.
    b : Tensor of shape (n,)
        The other entry.
    seed : int
        Seed for the draws.
    draws : int, default 1000
        Number of resamples. Those that are constant, where no correlation exists, are drawn again.
    """
    _check_draws(draws)
    # pairs are drawn together: the relation between a and b is what is resampled
    value = float(pearson(a, b))  # refuses constant input before any draw
    generator = generator_from("bootstrap", seed)
    values = torch.cat([_resampled(a, b, part, generator) for part in _chunks(draws, len(a))])
    return percentile_interval(value, values)


def percentile_interval(value: float, draws: Float[Tensor, " draws"]) -> Interval:
    """The range of 95 % of the draws, around the value of what is at hand."""
    low, high = torch.quantile(draws, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return Interval(value=value, low=low, high=high)


def permutation_baseline(
    a: Num[Tensor, " n"],
    b: Num[Tensor, " n"],
    *,
    seed: int,
    statistic: Statistic = pearson,
    draws: int = 1000,
) -> ChanceBaseline:
    """A statistic beside its values when the entries of `b` are permuted at random.

    Parameters
    ----------
    a : Tensor of shape (n,)
        One entry per pair.
    b : Tensor of shape (n,)
        The other entry, permuted in the baseline.
    seed : int
        Seed for the permutations.
    statistic : Statistic, default pearson
        Acts on two matrices row by row.
    draws : int, default 1000
        Number of permutations; the p-value is at least ``1 / (draws + 1)``.
    """
    _check_draws(draws)
    value = statistic(a, b)
    generator = generator_from("permutation", seed)
    drawn = []
    for part in _chunks(draws, len(a)):
        order = torch.rand(part, len(b), generator=generator, dtype=torch.float64).argsort(-1)
        drawn.append(statistic(a.expand(part, -1), b[order]))
    values = torch.cat(drawn)
    # permutations that give the same pairs differ in the last bits only and must count as equal
    extreme = values.abs() >= value.abs() - 1e-12
    return ChanceBaseline(value=float(value), draws=values, p_value=(1 + int(extreme.sum())) / (draws + 1))


def _resampled(a: Tensor, b: Tensor, draws: int, generator: torch.Generator) -> Tensor:
    index = torch.randint(len(a), (draws, len(a)), generator=generator)
    while (flat := _is_constant(a[index]) | _is_constant(b[index])).any():
        index[flat] = torch.randint(len(a), (int(flat.sum()), len(a)), generator=generator)
    return pearson(a[index], b[index])


def _chunks(draws: int, n: int) -> list[int]:
    """Cut the draws so that a chunk holds about a million numbers."""
    size = max(1, (1 << 20) // n)
    return [min(size, draws - start) for start in range(0, draws, size)]


def _is_constant(rows: Tensor) -> Tensor:
    return (rows == rows[..., :1]).all(-1)


def _standard(rows: Tensor, name: str) -> Tensor:
    exact = rows.double()
    centred = exact - exact.mean(-1, keepdim=True)
    size = exact.abs().amax(-1)
    # what is left of a constant vector after its mean is rounding: a correlation with that is noise
    if (centred.abs().amax(-1) <= 4 * _EPS * size).any():
        raise InvalidInput(
            f"`{name}` must vary: the correlation with a constant vector is undefined. Leave such rows out."
        )
    return _unit(centred, name)


def _unit(rows: Tensor, name: str) -> Tensor:
    # scaled first, so that squares neither overflow nor vanish
    size = rows.abs().amax(-1, keepdim=True)
    if (size == 0).any():
        raise InvalidInput(f"`{name}` must not be zero: the cosine with a zero vector is undefined.")
    scaled = rows / size
    length: Tensor = torch.linalg.vector_norm(scaled, dim=-1, keepdim=True)
    return scaled / length


def _check_pair(a: Tensor, b: Tensor) -> None:
    if a.shape != b.shape or a.ndim == 0 or a.shape[-1] < 2:
        raise InvalidInput(
            "`a` and `b` must have one shape with at least 2 entries in a row; "
            f"got {tuple(a.shape)} and {tuple(b.shape)}."
        )
    for name, values in (("a", a), ("b", b)):
        if not values.isfinite().all():
            raise InvalidInput(f"`{name}` holds NaN or infinite entries: the correlation is undefined.")


def _check_draws(draws: int) -> None:
    if draws < 1:
        raise InvalidInput(f"`draws` must be at least 1; got draws={draws}.")


def roc_area(suspicion: Float[Tensor, " n"], wrong: Bool[Tensor, " n"]) -> float:
    """Area under the ROC curve: chance that a wrong label looks more suspicious than a right one.

    Examples
    --------
    >>> roc_area(torch.tensor([0.9, 0.2, 0.4]), torch.tensor([True, False, False]))
    1.0
    """
    bad, good = int(wrong.sum()), int((~wrong).sum())
    if bad == 0 or good == 0:
        raise InvalidInput("`wrong` must mark some examples and leave some unmarked.")
    return float((ranks(suspicion)[wrong].sum() - bad * (bad + 1) / 2) / (bad * good))
