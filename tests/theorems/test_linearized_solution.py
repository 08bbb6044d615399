"""Training a linearised network ends at its least-squares solution, and a linear model is its own expansion."""

import pytest
import torch

from firstlight import models
from firstlight.measures.linearized.exact_solution import solve_linearized
from firstlight.training import Recipe, train
from reference.linearized import jacobian

SHAPE = (1, 12, 12)


def problem(n, seed, *, classes=2, width=0.5):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *SHAPE, generator=generator, dtype=torch.float64)
    y = torch.randn(n, classes, generator=generator, dtype=torch.float64)
    return models.build("lenet", classes=classes, shape=SHAPE, width=width, seed=seed).double(), x, y


def displacement(line):
    return torch.cat([p.detach().flatten() for p in line.parameters()])


@pytest.mark.parametrize("seed", range(2))
def test_descent_on_a_well_conditioned_case_converges_to_the_direct_solve(seed):
    model, x, y = problem(6, seed)
    rows = jacobian(model, x)
    values = torch.linalg.svdvals(rows).square()
    # with momentum b the error shrinks by sqrt(b) a step at least while rate * value stays between
    # (1 - sqrt(b))^2 and (1 + sqrt(b))^2: the rate serves the largest value, b the smallest
    ratio = float((values[0] / values[-1]).sqrt())
    momentum = ((ratio - 1) / (ratio + 1)) ** 2
    rate = (1 + momentum**0.5) ** 2 / float(values[0])
    line = models.linearize(model)
    # 40 times the time in which momentum gains a factor e
    steps = int(40 / (1 - momentum**0.5))
    recipe = Recipe(lr=rate * len(x) / 2, momentum=momentum, loss="mse_sum", batch_size=None, steps=steps)
    train(line, x, y, recipe, show=False)
    solution = solve_linearized(model, x, y, show=False).solution()
    assert float((line(x) - y).detach().norm() / y.norm()) < 1e-8
    assert torch.allclose(displacement(line), displacement(solution), rtol=1e-6, atol=1e-8)


def test_the_solution_interpolates_and_has_no_part_that_no_image_sees():
    model, x, y = problem(10, 3, width=1)
    line = solve_linearized(model, x, y, show=False).solution()
    rows, u = jacobian(model, x), displacement(line)
    assert float((line(x) - y).detach().norm() / y.norm()) < 1e-9
    inside = rows.T @ torch.linalg.lstsq(rows.T, u[:, None]).solution
    assert float((u - inside[:, 0]).norm() / u.norm()) < 1e-9
    expected = torch.linalg.pinv(rows) @ (y - model(x).detach()).flatten()
    assert torch.allclose(u, expected, rtol=1e-6, atol=1e-10)


def test_with_more_rows_than_weights_the_residual_is_orthogonal_to_the_gradients():
    model, x, y = problem(90, 4, width=0.0625)
    rows = jacobian(model, x)
    assert rows.shape[0] > rows.shape[1]
    line = solve_linearized(model, x, y, form="primal", show=False).solution()
    residual = (line(x) - y).detach().flatten()
    assert float((rows.T @ residual).norm()) < 1e-9 * float(rows.norm() * residual.norm())
    assert float(residual.norm()) > 1e-3


@pytest.mark.parametrize("batch_size", [None, 3])
def test_a_linear_model_equals_its_own_linearisation_at_every_step(batch_size):
    model = models.build("linear_cnn", classes=1, shape=SHAPE, filters=3, seed=1).double()
    line = models.linearize(model)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(8, *SHAPE, generator=generator, dtype=torch.float64)
    y = torch.randn(8, 1, generator=generator, dtype=torch.float64)
    recipe = Recipe(lr=0.1, momentum=0.9, loss="mse_sum", batch_size=batch_size, steps=50, seed=5)
    losses = [train(m, x, y, recipe, show=False).loss for m in (model, line)]
    assert torch.allclose(*losses, rtol=1e-10)
    assert torch.allclose(model(x), line(x), rtol=1e-10, atol=1e-12)
