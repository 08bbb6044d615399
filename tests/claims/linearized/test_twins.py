"""Network and linearisation share start and minibatches; the search takes what the validation images like."""

from dataclasses import replace

import pytest
import torch

from firstlight.claims.linearized import twins as module
from firstlight.claims.linearized.effective_ranks import gaussian_rank
from firstlight.claims.linearized.plans import SMOKE
from firstlight.claims.linearized.solved import solved
from firstlight.claims.linearized.sweep import Sweep, is_rising, label
from firstlight.claims.linearized.tasks import Part
from firstlight.claims.linearized.twins import Plan, run_twins, twins, varied
from firstlight.core.errors import Diverged
from firstlight.models import build, linearize, parameter_count
from reference.linearized import jacobian

TINY = replace(SMOKE, width=0.25, batch_size=8)


def test_twins_of_one_plan_are_the_same_to_the_bit():
    once, again = (twins(TINY) for _ in range(2))
    assert torch.equal(once.network, again.network)
    assert torch.equal(once.linear, again.linear)
    assert once.parameters == parameter_count(build("lenet", classes=8, shape=(3, 32, 32), width=0.25))
    assert once.rows == 24 * 8


def test_a_model_that_is_linear_in_its_weights_has_no_gap():
    # decay would pull the two to different places: to zero, and to the start
    plan = replace(SMOKE, task=replace(SMOKE.task, binary=True), decays=(0.0,))
    kinds = [
        module._Kind(lambda seed: build("linear_cnn", classes=1, shape=(3, 32, 32), seed=seed), plan),
        module._Kind(
            lambda seed: linearize(build("linear_cnn", classes=1, shape=(3, 32, 32), seed=seed)), plan
        ),
    ]
    parts = module.parts_of(plan.task, seed=0)
    outputs = []
    for kind in kinds:
        kind.search(parts)
        model = kind._trained(parts[0], kind.ranking[0], 0, 3)
        outputs.append(module.predictions(model, parts[2].x))
    assert kinds[0].ranking == kinds[1].ranking
    assert torch.allclose(*outputs, rtol=1e-4, atol=1e-5)


def test_a_rate_that_diverges_is_ranked_last_and_passed_over():
    plan = replace(TINY, rates=(1e6, 0.01))
    found = twins(plan)
    assert found.network_setting == found.linear_setting == (0.01, 5e-5)
    assert found.diverged == (0.5, 0.5)
    with pytest.raises(Diverged):
        twins(replace(TINY, rates=(1e6,)))


def test_other_decays_are_tried_at_the_best_rate_only():
    kind = module._Kind(
        lambda seed: build("lenet", classes=8, shape=(3, 32, 32), width=0.25, seed=seed), TINY
    )
    kind.plan = replace(TINY, rates=(0.03, 0.01), decays=(5e-5, 0.5))
    kind.search(module.parts_of(TINY.task, seed=0))
    assert len(kind.ranking) == 3
    assert {decay for _, decay in kind.ranking} == {5e-5, 0.5}


def test_stored_twins_equal_computed_ones():
    (stored,) = run_twins([TINY], label="test")
    (fetched,) = run_twins([TINY], label="test")
    assert torch.equal(stored.linear, fetched.linear)
    assert stored.seconds == fetched.seconds
    assert torch.equal(stored.linear, twins(TINY).linear)


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
    found = solved(model, *parts)
    exact = build("lenet", classes=3, shape=(1, 12, 12), width=width).double()
    xs = [part.x.double() for part in parts]
    residual = (parts[0].targets.double() - exact(xs[0])).flatten()
    u = torch.linalg.pinv(jacobian(exact, xs[0]), rtol=1e-12) @ residual
    for accuracy, part, x in ((found.least_norm[0], parts[0], xs[0]), (found.least_norm[1], parts[2], xs[2])):
        outputs = exact(x) + (jacobian(exact, x) @ u).reshape(-1, 3)
        assert accuracy == pytest.approx(part.accuracy(outputs), abs=1e-12)


def test_a_sweep_reads_gaps_and_gains_by_width():
    rows = tuple(twins(p) for p in varied(TINY, (0.25, 0.5)))
    found = Sweep(name="photos", rows=rows)
    assert found.widths == (0.25, 0.5)
    assert found.gap(0.5) == pytest.approx(float((rows[1].network - rows[1].linear)[:, 1].mean()))
    assert set(found.gaps()) == {"photos gap x1/4", "photos gap x1/2"}
    assert found.gain("linear") == pytest.approx(float(rows[1].linear[0, 1] - rows[0].linear[0, 1]))


def test_plans_vary_in_width_and_task_alone():
    plans = varied(Plan(), (1, 2), shift=7)
    assert [p.width for p in plans] == [1.0, 2.0]
    assert all(p.task.shift == 7 and p.rates == Plan().rates for p in plans)


def test_rising_allows_a_tolerance_and_widths_read_as_fractions():
    assert is_rising([1.0, 2.0, 1.995], tolerance=0.01)
    assert not is_rising([1.0, 2.0, 1.995])
    assert [label(w) for w in (0.125, 1.0, 60.0)] == ["x1/8", "x1", "x60"]


def test_effective_rank_of_independent_numbers_follows_the_formula():
    matrix = torch.randn(300, 900, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    values = torch.linalg.svdvals(matrix).square()
    shares = values / values.sum()
    assert float((-(shares * shares.log()).sum()).exp()) == pytest.approx(gaussian_rank(300, 900), rel=0.01)
