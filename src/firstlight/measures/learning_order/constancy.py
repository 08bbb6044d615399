"""Do networks learn examples in one order, what predicts it, which scores agree? With the controls built in."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float, Num
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.maths.correlation import (
    ChanceBaseline,
    Interval,
    bootstrap_interval,
    pearson,
    permutation_baseline,
    spearman,
)
from firstlight.measures.learning_order.accessibility import AccessibilityHistory

DRAWS = 400
FASTEST = 0.2  # share of the examples that are looked at again, apart from the rest


@dataclass(frozen=True, kw_only=True)
class Constancy(Result):
    """Agreement of two ensembles on the order in which examples are learned.

    Parameters
    ----------
    value : Interval
        Pearson correlation of the accessibilities; 95 % of resampled examples lie in the range.
    rank : float
        Spearman correlation.
    fastest : Interval or None
        Correlation among the fastest share only, chosen by a third ensemble; None without one, or where
        all of those were learned at once.
    accuracy : tuple of 2 float
        Mean accuracy of either ensemble at its last epoch. Compare only what is matched.
    share : float
        Share of the examples that count as fast.
    """

    value: Interval
    rank: float
    fastest: Interval | None
    accuracy: tuple[float, float]
    share: float = FASTEST


def learning_order_constancy(
    first: AccessibilityHistory,
    second: AccessibilityHistory,
    *,
    third: AccessibilityHistory | None = None,
    seed: int = 0,
) -> Constancy:
    """Correlate the accessibility of the same examples in two disjoint ensembles.

    Parameters
    ----------
    first, second : AccessibilityHistory
        Ensembles of networks trained apart.
    third : AccessibilityHistory, optional
        Chooses the fastest examples. The two that are compared must not: that selection alone makes
        correlations of -0.2 to -0.75 (E-37), so without a third ensemble nothing is said of them.
    seed : int, default 0
        Seed for the resampling.
    """
    _same_examples(first, second, *(() if third is None else (third,)))
    a, b = first.scores, second.scores
    fastest = None
    if third is not None:
        chosen = fastest_share(third)
        # a third ensemble chooses: chosen by `a` or `b`, the examples would agree by selection alone
        if varies(a[chosen]) and varies(b[chosen]):
            fastest = bootstrap_interval(a[chosen], b[chosen], seed=seed, draws=DRAWS)
    return Constancy(
        value=bootstrap_interval(a, b, seed=seed, draws=DRAWS),
        rank=float(spearman(a, b)),
        fastest=fastest,
        accuracy=(float(first.accuracy[:, -1].mean()), float(second.accuracy[:, -1].mean())),
    )


def fastest_share(history: AccessibilityHistory) -> Tensor:
    """Indices of the examples of the highest accessibility; ties by the earlier index."""
    count = max(2, round(FASTEST * history.n_examples))
    return history.scores.argsort(descending=True, stable=True)[:count]


@dataclass(frozen=True, kw_only=True)
class OrderCorrelation(Result):
    """How well a score predicts the order, example by example and in bins.

    Parameters
    ----------
    pointwise : Interval
        Pearson correlation over examples, with its range.
    rank : float
        Spearman correlation over examples.
    binned : float
        Pearson correlation of bin means. It flatters: averaging removes what the score misses.
    chance : ChanceBaseline
        The pointwise correlation when scores are dealt out at random.
    n_examples : int
        Number of examples that have the score.
    """

    pointwise: Interval
    rank: float
    binned: float
    chance: ChanceBaseline
    n_examples: int


def order_correlation(
    accessibility: Num[Tensor, " n"], score: Num[Tensor, " n"], *, seed: int = 0
) -> OrderCorrelation:
    """Correlate accessibility with any other score of the same examples; the two numbers side by side.

    Parameters
    ----------
    accessibility : Tensor of shape (n,)
        Accessibility of each example.
    score : Tensor of shape (n,)
        Score of each example; leave out those for which it is undefined.
    seed : int, default 0
        Seed for resampling and permutations.
    """
    return OrderCorrelation(
        pointwise=bootstrap_interval(accessibility, score, seed=seed, draws=DRAWS),
        rank=float(spearman(accessibility, score)),
        binned=binned_correlation(accessibility, score),
        chance=permutation_baseline(accessibility, score, seed=seed, draws=DRAWS),
        n_examples=len(score),
    )


def binned_correlation(
    accessibility: Num[Tensor, " n"], score: Num[Tensor, " n"], *, bins: int = 20
) -> float:
    """Pearson correlation of the means over bins of equal size along the score; 0 if those do not vary."""
    # equal numbers of examples in each bin: bins of equal width leave means of a few examples at the ends
    order = score.argsort(stable=True)
    parts = [p for p in torch.tensor_split(order, bins) if len(p)]
    a = torch.stack([accessibility[p].double().mean() for p in parts])
    s = torch.stack([score[p].double().mean() for p in parts])
    return float(pearson(a, s)) if varies(a) and varies(s) else 0.0


def varies(values: Tensor) -> bool:
    """Whether numbers differ by more than rounding."""
    # 1e-12: a mean of equal numbers may differ from them by rounding
    return bool((values.double() - values.double().mean()).abs().max() > 1e-12)


def _same_examples(*histories: AccessibilityHistory) -> None:
    counts = {h.n_examples for h in histories}
    if len(counts) > 1:
        raise InvalidInput(
            f"all ensembles must follow the same examples; they follow {sorted(counts)} of them."
        )


N_PERMUTATIONS = 200


@dataclass(frozen=True, kw_only=True)
class ScoreAgreement(Result):
    """Rank correlations of all pairs of scores.

    Parameters
    ----------
    names : tuple of str
        Of the scores, in the order given.
    correlation : Tensor of shape (s, s)
        Spearman's rank correlation.
    p_value : Tensor of shape (s, s)
        Share of random pairings of the examples that correlate as strongly.
    chance : Tensor of shape (s, s)
        Largest absolute correlation among 95 % of these pairings.
    n : int
        Number of examples.
    """

    names: tuple[str, ...]
    correlation: Float[Tensor, "s s"]
    p_value: Float[Tensor, "s s"]
    chance: Float[Tensor, "s s"]
    n: int


def score_agreement(
    scores: Mapping[str, Float[Tensor, " _n"]], *, draws: int = N_PERMUTATIONS, seed: int = 0
) -> ScoreAgreement:
    r"""Which scores of the examples rank them alike?

    Scores such as accessibility, the mean margin over epochs (AUM), the error of the class probabilities early in
    training (EL2N) and the number of forgetting events are all read as difficulty. Spearman's correlation compares
    their rankings; equal values share a rank, which matters for counts.

    *What a practitioner does with the number:* of scores that agree, record the cheapest; where they disagree, look
    at the examples that only one of them ranks as difficult.

    Parameters
    ----------
    scores : mapping of str to Tensor
        At least two scores, each with one number per example in the same order. High may mean easy in one and
        difficult in another: the sign of the correlation tells.
    draws : int, default N_PERMUTATIONS
        Number of random pairings.
    seed : int, default 0
        Seed of the pairings.

    Returns
    -------
    ScoreAgreement
        Cost O(s² draws n log n).

    Examples
    --------
    >>> table = score_agreement({"margin": torch.arange(9.0), "error": -torch.arange(9.0) ** 3})
    >>> round(float(table.correlation[0, 1]), 6)
    -1.0
    """
    if len(scores) < 2:
        raise InvalidInput(f"`scores` must hold at least two scores; got {len(scores)}.")
    sizes = {len(score) for score in scores.values()}
    if len(sizes) > 1:
        raise InvalidInput(f"all scores must be of the same examples; got {sorted(sizes)} of them.")
    names = tuple(scores)
    correlation, p_value, chance = (torch.eye(len(names), dtype=torch.float64) for _ in range(3))
    # the least that so many permutations can give
    p_value.fill_diagonal_(1 / (draws + 1))
    for i, j in combinations(range(len(names)), 2):
        baseline = permutation_baseline(
            scores[names[i]], scores[names[j]], seed=seed, statistic=spearman, draws=draws
        )
        correlation[i, j] = correlation[j, i] = baseline.value
        p_value[i, j] = p_value[j, i] = baseline.p_value
        # two-sided: scores may rank in opposite directions
        chance[i, j] = chance[j, i] = baseline.draws.abs().quantile(0.95)
    return ScoreAgreement(names=names, correlation=correlation, p_value=p_value, chance=chance, n=sizes.pop())
