"""Network and linearisation share initial weights and minibatches; the search takes what the validation images like."""

from dataclasses import replace

import pytest
import torch

from firstlight._internal.errors import Diverged
from firstlight.models import build, parameter_count
from firstlight.training import predictions
from reference.linearized import jacobian
from reproduce.evidence import by
from reproduce.studies.linearized import pairs as module
from reproduce.studies.linearized.common import (
    BINARY_WIDTHS,
    DESK_BINARY,
    SMOKE,
    CaseSpectrum,
    common_widths,
    factor,
    gaussian_condition,
    gaussian_rank,
    minus_published,
    pairs_by_width,
    rank_readings,
    readings,
)
from reproduce.studies.linearized.pairs import (
    KINDS,
    Part,
    pair,
    parts_of,
    ranking,
    run_pairs,
    scores,
    search,
    solved,
    trained,
)
from reproduce.studies.linearized.solutions import smooth

TINY = replace(SMOKE, width=0.25, batch_size=8)


def test_pairs_of_one_plan_are_the_same_to_the_bit():
    once, again = (pair(TINY) for _ in range(2))
    assert once == again
    assert once.parameters == parameter_count(build("lenet", classes=8, shape=(3, 32, 32), width=0.25))
    assert once.equations == 24 * 8


def test_another_seed_draws_other_images_but_keeps_the_settings_of_the_search(monkeypatch):
    monkeypatch.setattr(module, "search", lambda plan, kind: [(0.01 * (1 + plan.seed), 5e-5)])
    settings = [pair(replace(TINY, seed=seed)).settings for seed in (0, 5)]
    assert settings[0] == settings[1] == {kind: (0.01, 5e-5) for kind in KINDS}


def test_a_model_that_is_linear_in_its_weights_has_no_gap(monkeypatch):
    # decay would pull the two to different places: to zero, and to the initial weights
    plan = replace(SMOKE, model="linear_cnn", task=replace(SMOKE.task, binary=True), decays=(0.0,))
    monkeypatch.setattr(
        module,
        "ModelSpec",
        lambda **spec: lambda seed: build("linear_cnn", classes=1, shape=(3, 32, 32), seed=seed),
    )
    parts = parts_of(plan.task, seed=0)
    assert search(plan, "network") == search(plan, "linearised")
    outputs = [
        predictions(trained(plan, kind, parts[0], (0.03, 0.0), seed=0, epochs=3), parts[2].x)
        for kind in KINDS
    ]
    assert torch.allclose(*outputs, rtol=1e-4, atol=1e-5)


def test_a_rate_that_diverges_is_ranked_last_and_passed_over():
    plan = replace(TINY, rates=(1e6, 0.01))
    assert search(plan, "network")[0] == search(plan, "linearised")[0] == (0.01, 5e-5)
    parts = parts_of(plan.task, seed=0)
    assert scores(plan, "network", parts, [(1e6, 5e-5), (0.01, 5e-5)]) == scores(
        plan, "network", parts, [(0.01, 5e-5)]
    )
    with pytest.raises(Diverged):
        scores(plan, "network", parts, [(1e6, 5e-5)])


def test_other_decays_are_tried_at_the_best_rate_only():
    settings = search(replace(TINY, rates=(0.03, 0.01), decays=(5e-5, 0.5)), "network")
    assert len(settings) == 3
    assert {decay for _, decay in settings} == {5e-5, 0.5}


def test_one_rate_and_one_decay_need_no_search(monkeypatch):
    monkeypatch.setattr(module, "search", None)
    assert ranking(replace(TINY, rates=(0.02,)), "network") == [(0.02, 5e-5)]


def test_stored_pairs_equal_computed_ones():
    stored, fetched = (run_pairs([TINY], label="test")[0] for _ in range(2))
    assert stored == fetched == pair(TINY)


def drawn_part(n, k, seed):
    generator = torch.Generator().manual_seed(seed)
    y = torch.arange(n) % k
    return Part(
        x=torch.randn(n, 1, 12, 12, generator=generator),
        targets=torch.nn.functional.one_hot(y, k).float(),
        y=y,
    )


@pytest.mark.parametrize("width", [0.125, 0.5])  # fewer and more weights than rows
def test_the_solution_is_that_of_the_pseudo_inverse(width):
    parts = [drawn_part(60, 3, seed) for seed in range(3)]
    model = build("lenet", classes=3, shape=(1, 12, 12), width=width)
    solution = solved(model, *parts)
    exact = build("lenet", classes=3, shape=(1, 12, 12), width=width).double()
    xs = [part.x.double() for part in parts]
    residual = (parts[0].targets.double() - exact(xs[0])).flatten()
    u = torch.linalg.pinv(jacobian(exact, xs[0]), rtol=1e-12) @ residual
    for accuracy, part, x in (
        (solution.least_norm[0], parts[0], xs[0]),
        (solution.least_norm[1], parts[2], xs[2]),
    ):
        outputs = exact(x) + (jacobian(exact, x) @ u).reshape(-1, 3)
        assert accuracy == pytest.approx(part.accuracy(outputs), abs=1e-12)


def test_readings_hold_accuracies_by_width_factor():
    pairs = pairs_by_width("photos", replace(TINY, solve=True), (0.25, 0.5), seed=0)
    measured = readings(pairs, "photos")
    assert all(series.points == (0.25, 0.5) for series in measured.values())
    assert measured["gap on photos"].values.tolist() == [one.network[1] - one.linearised[1] for one in pairs]
    assert measured["solved on photos"].values.tolist() == [one.solved[1] for one in pairs]
    assert "solved on photos" not in readings(pairs_by_width("photos", TINY, (0.25,), seed=0), "photos")


def test_pairs_vary_in_width_and_in_what_is_said_of_the_task():
    shifted = replace(TINY, task=replace(TINY.task, shift=7), seed=3)
    assert pairs_by_width("shifted", TINY, (0.25, 0.5), seed=3, shift=7) == [
        pair(replace(shifted, width=width)) for width in (0.25, 0.5)
    ]


def test_whole_width_factors_are_named_by_whole_numbers():
    assert [repr(factor(w)) for w in (0.125, 1.0, 60)] == ["0.125", "1", "60"]


def test_only_points_that_the_paper_prints_are_compared_with_it():
    difference = minus_published(by((0.5, 1, 60), [0.1, 0.2, 0.3]), {1: 0.25, 2: 0.0, 60: 0.3})
    assert difference.points == (1, 60)
    assert difference.values.tolist() == pytest.approx([-0.05, 0.0])
    assert minus_published(by((0.5,), [0.1]), {1: 0.25}).points == ()
    assert common_widths(by((1, 2), [0.5, 0.7]), by((2, 4), [0.1, 0.1])).points == (2,)


def test_desk_widths_have_one_and_fifteen_weights_per_image():
    counts = [
        parameter_count(build("lenet", classes=1, shape=(1, 28, 28), width=w, device="meta"))
        for w in BINARY_WIDTHS
    ]
    ratios = [count / DESK_BINARY.task.n for count in counts]
    assert ratios == pytest.approx([1.017, 4.2, 15.5], rel=0.01)


def test_smooth_networks_have_neither_kinks_nor_maxima():
    kinds = {type(module).__name__ for module in smooth(build("lenet", shape=(1, 28, 28))).modules()}
    assert not kinds & {"ReLU", "MaxPool2d"}
    assert {"Tanh", "AvgPool2d"} <= kinds


def test_ranks_are_shares_of_the_rows():
    flat = CaseSpectrum(values=torch.ones(20, dtype=torch.float64), weights=10**6)
    measured = rank_readings({1.0: flat}, "ones")
    assert measured["kernel rank of ones"].values.tolist() == pytest.approx([1.0])
    assert measured["rank of independent numbers like ones"].values.tolist() == pytest.approx([1.0], rel=1e-4)
    assert flat.condition == 1


def test_condition_of_independent_numbers_follows_the_formula():
    matrix = torch.randn(300, 1500, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.linalg.svdvals(matrix)
    assert float(values[0] / values[-1]) == pytest.approx(gaussian_condition(300, 1500), rel=0.03)


def test_effective_rank_of_independent_numbers_follows_the_formula():
    matrix = torch.randn(300, 900, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.linalg.svdvals(matrix).square()
    shares = values / values.sum()
    assert float((-(shares * shares.log()).sum()).exp()) == pytest.approx(gaussian_rank(300, 900), rel=0.01)
