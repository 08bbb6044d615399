"""What training a linearised network really reaches is what the direct solve says."""

import pytest
import torch
from torch import nn

from firstlight import models, training
from firstlight._internal.errors import Diverged, InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight.measures.linearized.exact_solution import (
    solve_linearized,
    solve_linearized_by_steps,
)
from firstlight.theory.linearized import rate_of
from reference import linearized as reference


def network(outputs=2):
    """Few weights, smooth, so that its tangent kernel is well conditioned."""
    with global_seed("test", 0):
        return nn.Sequential(
            nn.Conv2d(1, 6, 3), nn.Tanh(), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(24, outputs)
        ).double()


def problem(n=6, outputs=2):
    generator = torch.Generator().manual_seed(1)
    x = torch.randn(n, 1, 6, 6, generator=generator, dtype=torch.float64)
    return x, torch.randn(n, outputs, generator=generator, dtype=torch.float64)


def flat(line):
    return torch.cat([u.detach().flatten() for u in line.parameters()])


@pytest.mark.parametrize("form", ["dual", "primal"])
def test_the_solution_is_the_pseudo_inverse_of_the_jacobian(form):
    model, (x, y) = network(), problem()
    solved = solve_linearized(model, x, y, form=form, show=False)
    rows = reference.jacobian(model, x)
    expected = torch.linalg.pinv(rows) @ (y - model(x).detach()).flatten()
    assert torch.allclose(flat(solved.solution()), expected, atol=1e-9)
    assert torch.allclose(solved.solution()(x), y, atol=1e-9)


def test_the_smaller_form_is_taken():
    assert solve_linearized(network(), *problem(), show=False).form == "dual"
    few = nn.Sequential(nn.Flatten(), nn.Linear(36, 1)).double()
    x, y = problem(50, 1)
    solved = solve_linearized(few, x, y, show=False)
    assert solved.form == "primal"
    design = torch.cat([x.flatten(1), torch.ones(50, 1)], 1)
    assert torch.allclose(solved.solution()(x), design @ torch.linalg.lstsq(design, y).solution, atol=1e-10)


def test_gradient_descent_and_sgd_converge_to_the_direct_solve():
    model, (x, y) = network(), problem()
    solved = solve_linearized(model, x, y, show=False)
    lr = 1.0 / (rate_of(1.0, n=6) * solved.fit.largest)
    steps = int(12 * solved.fit.condition)
    for batch, factor in ((None, 1.0), (3, 0.4)):
        line = models.linearize(model)
        recipe = training.Recipe(lr=factor * lr, loss="mse_sum", batch_size=batch, steps=int(steps / factor))
        training.train(line, x, y, recipe, show=False)
        # (1 - 1/condition)^(12 condition) = 6e-6 of the way is left in the slowest direction
        assert (flat(line) - flat(solved.solution())).norm() < 1e-4 * flat(solved.solution()).norm()


def test_training_at_any_step_is_the_closed_form():
    model, (x, y) = network(), problem()
    solved, line = solve_linearized(model, x, y, show=False), models.linearize(model)
    recipe = training.Recipe(lr=0.02, loss="mse_sum", batch_size=None, steps=37)
    training.train(line, x, y, recipe, show=False)
    assert torch.allclose(flat(line), flat(solved.after(steps=37, rate=rate_of(0.02, n=6))), atol=1e-12)


def test_many_small_steps_follow_the_flow():
    model, (x, y) = network(), problem()
    solved = solve_linearized(model, x, y, show=False)
    errors = []
    for steps in (50, 500):
        line = models.linearize(model)
        recipe = training.Recipe(lr=1.0 / steps, loss="mse_sum", batch_size=None, steps=steps)
        training.train(line, x, y, recipe, show=False)
        errors.append(float((flat(line) - flat(solved.at_time(rate_of(1.0, n=6)))).norm()))
    assert errors[1] < errors[0] / 9


def test_weight_decay_converges_to_the_ridge_solution():
    model, (x, y) = network(), problem()
    solved, line = solve_linearized(model, x, y, show=False), models.linearize(model)
    lr = 0.9 / (rate_of(1.0, n=6) * solved.fit.largest)
    decay = 0.05
    recipe = training.Recipe(lr=lr, weight_decay=decay, loss="mse_sum", batch_size=None, steps=4000)
    training.train(line, x, y, recipe, show=False)
    ridge = decay / rate_of(1.0, n=6)  # both pull u to 0
    assert torch.allclose(flat(line), flat(solved.solution(ridge=ridge)), atol=1e-8)
    assert flat(line).norm() < flat(solved.solution()).norm()


def test_bad_input_is_refused():
    x, y = problem()
    with pytest.raises(InvalidInput, match=r"shape of the outputs, \(6, 2\)"):
        solve_linearized(network(), x, y[:, :1], show=False)
    with pytest.raises(InvalidInput, match="`form` must be"):
        solve_linearized(network(), x, y, form="both", show=False)


@pytest.mark.parametrize(("n", "outputs"), [(1, 1), (6, 2), (40, 3)])
def test_ridge_regression_by_steps_is_the_direct_solve(n, outputs):
    model, (x, y) = network(outputs), problem(n, outputs)
    rows = reference.jacobian(model, x)
    wanted = (y - model(x).detach()).flatten()
    largest = torch.linalg.eigvalsh(rows @ rows.T)[-1]
    ridges = (1e-1, 1e-3)
    for solved, ridge in zip(
        solve_linearized_by_steps(model, x, y, ridges=ridges, tolerance=1e-12, show=False),
        ridges,
        strict=True,
    ):
        shifted = rows.T @ rows + ridge * largest * torch.eye(rows.shape[1], dtype=torch.float64)
        expected = torch.linalg.solve(shifted, rows.T @ wanted)
        # the largest eigenvalue is known to a per cent, which moves the solution by at most as much
        assert (flat(solved.model) - expected).norm() < 2e-2 * expected.norm()
        gradient = rows.T @ (rows @ flat(solved.model) - wanted)
        slope = (rows.T @ wanted).norm()
        # at the solution the gradient of the loss is -λ u, for the λ that was used
        used = -(gradient @ flat(solved.model)) / flat(solved.model).square().sum()
        assert abs(used / (ridge * largest) - 1) < 2e-2
        assert (gradient + used * flat(solved.model)).norm() < 1e-8 * slope
        assert solved.residual < 1e-8


def test_a_network_that_fits_already_does_not_move():
    model, (x, _) = network(), problem()
    (solved,) = solve_linearized_by_steps(model, x, model(x).detach(), ridges=(0.1,), show=False)
    assert not flat(solved.model).any()
    assert solved.residual == 0


def test_what_steps_cannot_solve_is_refused():
    model, (x, y) = network(3), problem(40, 3)
    with pytest.raises(InvalidInput, match="must be finite and positive"):
        next(solve_linearized_by_steps(model, x, y, ridges=(0.0,), show=False))
    for solve in (
        solve_linearized,
        lambda *given, **_: next(solve_linearized_by_steps(*given, ridges=(0.1,))),
    ):
        with pytest.raises(InvalidInput, match="must be finite; some are NaN"):
            solve(model, x, y * torch.nan, show=False)
        with pytest.raises(InvalidInput, match="must be finite; some are NaN"):
            solve(model, x * torch.inf, y, show=False)
    with pytest.raises(Diverged, match="did not reach 1e-06 in 2 steps"):
        next(solve_linearized_by_steps(model, x, y, ridges=(1e-8,), most=2, show=False))
