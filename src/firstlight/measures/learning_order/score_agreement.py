"""Which scores of examples agree: a table of rank correlations beside chance."""

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import combinations

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.maths.correlation import permutation_baseline, spearman

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
