import math

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.maths.correlation import (
    bootstrap_interval,
    correlation_matrix,
    cosine,
    null_spread,
    pearson,
    permutation_baseline,
    ranks,
    spearman,
)
from reference.correlation import naive_cosine, naive_pearson, naive_ranks, naive_spearman

MEASURES = [(pearson, naive_pearson), (spearman, naive_spearman), (cosine, naive_cosine)]


def normal(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@st.composite
def pairs(draw):
    """Rows with many ties, none of them constant."""
    n, d = draw(st.integers(1, 4)), draw(st.integers(2, 9))
    rows = st.lists(st.integers(-3, 3).map(float), min_size=d, max_size=d).filter(lambda v: len(set(v)) > 1)
    return [torch.tensor([draw(rows) for _ in range(n)], dtype=torch.float64) for _ in range(2)]


@pytest.mark.parametrize(("fast", "naive"), MEASURES)
@given(pairs())
def test_each_measure_equals_its_definition_row_by_row(fast, naive, pair):
    a, b = pair
    expected = [naive(x, y) for x, y in zip(a.tolist(), b.tolist(), strict=True)]
    assert fast(a, b).tolist() == pytest.approx(expected, abs=1e-13)
    assert float(fast(a[0], b[0])) == pytest.approx(expected[0], abs=1e-13)


@given(pairs())
def test_ranks_equal_their_definition(pair):
    assert ranks(pair[0]).tolist() == [naive_ranks(row) for row in pair[0].tolist()]


@given(pairs())
def test_the_correlation_matrix_holds_all_pairs(pair):
    rows = torch.cat(pair)
    expected = [[naive_pearson(x, y) for y in rows.tolist()] for x in rows.tolist()]
    torch.testing.assert_close(
        correlation_matrix(rows), torch.tensor(expected, dtype=torch.float64), rtol=0, atol=1e-13
    )


@given(pairs(), st.floats(0.01, 100), st.floats(-100, 100))
def test_pearson_ignores_scale_and_offset(pair, scale, offset):
    a, b = pair
    torch.testing.assert_close(pearson(a * scale + offset, b), pearson(a, b), rtol=0, atol=1e-9)


@given(pairs())
def test_spearman_ignores_increasing_maps(pair):
    a, b = pair
    torch.testing.assert_close(spearman(a.exp(), b**3), spearman(a, b), rtol=0, atol=1e-13)


def test_huge_and_tiny_entries_neither_overflow_nor_vanish():
    a, b = normal(2, 10)
    for scale in (1e-200, 1e200):
        assert float(pearson(a * scale, b * scale)) == pytest.approx(float(pearson(a, b)), abs=1e-12)
        assert float(cosine(a * scale, b)) == pytest.approx(float(cosine(a, b)), abs=1e-12)


@pytest.mark.parametrize("measure", [pearson, spearman])
@pytest.mark.parametrize("constant", [0.0, 0.1, 1e6 + 0.1])
def test_constant_vectors_have_no_correlation(measure, constant):
    flat = torch.full((7,), constant, dtype=torch.float64)
    with pytest.raises(InvalidInput, match="`b` must vary"):
        measure(normal(7), flat)
    with pytest.raises(InvalidInput, match="`a` must vary"):
        measure(torch.stack([normal(7), flat]), normal(2, 7))


def test_a_zero_vector_has_no_cosine_but_a_constant_one_has():
    with pytest.raises(InvalidInput, match="zero vector"):
        cosine(normal(3), torch.zeros(3))
    assert float(cosine(torch.ones(3), 2 * torch.ones(3))) == pytest.approx(1)


@pytest.mark.parametrize("measure", [pearson, spearman, cosine])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_entries_that_are_no_numbers_are_refused(measure, value):
    with pytest.raises(InvalidInput, match="`b` holds NaN or infinite"):
        measure(normal(3), torch.tensor([1.0, value, 2.0]))


def test_one_entry_is_too_few():
    with pytest.raises(InvalidInput, match="at least 2 entries"):
        pearson(torch.ones(1), torch.ones(1))


def test_the_bootstrap_interval_covers_the_truth_about_as_often_as_it_says():
    rho, n, repeats = 0.6, 60, 300
    a, noise = normal(repeats, n, seed=3), normal(repeats, n, seed=4)
    b = rho * a + math.sqrt(1 - rho**2) * noise
    intervals = [
        bootstrap_interval(x, y, seed=i, draws=300) for i, (x, y) in enumerate(zip(a, b, strict=True))
    ]
    covered = sum(i.low <= rho <= i.high for i in intervals) / repeats
    assert 0.95 - 0.06 < covered < 0.95 + 0.04  # percentile intervals of 60 pairs run a little short


def test_resamples_that_are_constant_are_drawn_again():
    a = torch.tensor([0.0, 0.0, 0.0, 1.0])
    interval = bootstrap_interval(a, torch.tensor([0.0, 1.0, 0.0, 1.0]), seed=0, draws=200)
    assert -1 <= interval.low <= interval.value <= interval.high <= 1


@pytest.mark.parametrize("function", [bootstrap_interval, permutation_baseline])
def test_the_same_seed_gives_the_same_draws(function):
    a, b = normal(2, 20)
    assert function(a, b, seed=1).to_dict() == function(a, b, seed=1).to_dict()
    assert function(a, b, seed=1).to_dict() != function(a, b, seed=2).to_dict()


def test_permutations_have_the_spread_that_theory_gives():
    a, b = normal(2, 27, seed=5)
    baseline = permutation_baseline(a, b, seed=0, draws=4000)
    # exact over all permutations; the standard deviation of 4000 draws has a relative error of 1.1 %
    assert baseline.spread == pytest.approx(null_spread(27), rel=0.04)


def test_p_values_of_unrelated_vectors_are_uniform():
    values = [permutation_baseline(*normal(2, 15, seed=s), seed=s, draws=99).p_value for s in range(300)]
    # Kolmogorov-Smirnov distance at the 0.1 % level
    ordered = torch.tensor(sorted(values))
    distance = (ordered - torch.arange(1, 301) / 300).abs().max()
    assert float(distance) < 1.95 / math.sqrt(300) + 0.01


def test_a_perfect_relation_has_the_smallest_p_value():
    a = normal(12)
    assert permutation_baseline(a, 2 * a, seed=0, draws=999).p_value == pytest.approx(1 / 1000)


def test_equal_pairings_count_as_extreme():
    a = torch.tensor([0.0, 1.0])
    assert permutation_baseline(a, a, seed=0, draws=50).p_value == 1.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: bootstrap_interval(normal(5), normal(5, seed=1), seed=0, draws=0), "draws=0"),
        (lambda: permutation_baseline(normal(5), torch.ones(5), seed=0), "must vary"),
        (lambda: null_spread(2), "d=2"),
    ],
)
def test_meaningless_requests_are_refused(call, message):
    with pytest.raises(InvalidInput, match=message):
        call()


@given(st.integers(0, 100))
def test_measures_are_symmetric_and_bounded(seed):
    a, b = normal(2, 6, seed=seed)
    assume(float(a.std()) > 0)
    for measure in (pearson, spearman, cosine):
        assert float(measure(a, b)) == float(measure(b, a))
        assert -1 <= float(measure(a, b)) <= 1
        assert float(measure(a, a)) == pytest.approx(1, abs=1e-15)
