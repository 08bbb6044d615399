import math

import pytest
import torch

from reproduce.evidence import Evidence, by, estimate


def coverage(draw, truth, *, n=5, repetitions=4000):
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for _ in range(repetitions):
        interval = estimate(draw(n, generator))
        hits += interval.low <= truth <= interval.high
    return hits / repetitions


def normal(n, generator):
    return torch.randn(n, generator=generator, dtype=torch.float64)


def uniform(n, generator):
    return torch.rand(n, generator=generator, dtype=torch.float64)


def skewed(n, generator):
    return -torch.rand(n, generator=generator, dtype=torch.float64).log()


@pytest.mark.parametrize(
    ("draw", "truth", "least", "most"),
    [
        # 4000 repetitions have a standard error of 0.0035; four of them are allowed to either side
        (normal, 0.0, 0.936, 0.964),
        (uniform, 0.5, 0.92, 0.95),
        (skewed, 1.0, 0.85, 0.90),  # exponential: the docstring says what is lost
    ],
)
def test_intervals_of_five_seeds_cover_the_truth_as_often_as_they_say(draw, truth, least, most):
    assert least <= coverage(draw, truth) <= most


def test_a_percentile_bootstrap_of_five_seeds_covers_too_rarely():
    # the reason for choosing Student's interval, kept as a test
    generator = torch.Generator().manual_seed(0)
    hits = 0
    for _ in range(600):
        values = normal(5, generator)
        picks = torch.randint(5, (400, 5), generator=generator)
        low, high = values[picks].mean(1).quantile(torch.tensor([0.025, 0.975], dtype=torch.float64))
        hits += bool(low <= 0 <= high)
    assert hits / 600 < 0.88


def test_one_seed_has_no_spread():
    shown = estimate(torch.tensor([0.5]))
    assert (shown.low, shown.high) == (-math.inf, math.inf)
    assert shown.seeds == (0.5,)


def test_seeds_are_stacked_by_name_and_point():
    evidence = Evidence.of(
        {
            3: {"gap": by((1, 2), [0.1, 0.2]), "loss": 0.5, "curve": torch.ones(4)},
            4: {"gap": by((1, 2, 4), [0.3, 0.4, 0.5]), "loss": 0.7, "curve": torch.zeros(4)},
        }
    )
    assert evidence.seeds == (3, 4)
    assert evidence.points("gap") == (1, 2), "a point that one seed lacks is not judged"
    assert evidence.values["gap"][1].tolist() == [0.1, 0.3]
    assert evidence.values["loss"][None].tolist() == [0.5, 0.7]
    assert evidence.table("gap").shape == (2, 2)
    assert len(evidence.arrays["curve"]) == 2
    assert set(evidence.estimates(["gap", "loss"])) == {"gap, 1", "gap, 2", "loss"}


def test_points_and_values_must_agree():
    with pytest.raises(ValueError, match="2 points, but 1 values"):
        by((1, 2), [0.5])
