"""Ridge solvers against each other, and the loop that learns a metric."""

import numpy as np
import pytest
import torch

from firstlight._internal.errors import Diverged, InvalidInput
from firstlight.kernels import (
    CholeskyPath,
    ConvKernel,
    RidgePath,
    conjugate_gradients,
    kernel_agop,
    kernel_gram,
    learn_metric,
    random_filters,
    ridge_residual,
    ridge_solver,
)
from firstlight.kernels.ridge import LARGE
from reproduce.studies.feature_ansatz.noisy_images import bars_in_noise


def problem(n: int = 60):
    data = bars_in_noise(n, sigma=0.5, seed=0, rows=6, columns=8)
    kernel = kernel_gram(data.x, kernel=ConvKernel(depth=2), dtype=torch.float64)
    return data, kernel / kernel.max(), torch.nn.functional.one_hot(data.y, 2).double()


@pytest.mark.parametrize("ridge", [1e-5, 1e-2, 1.0])
def test_all_solvers_give_one_solution(ridge):
    _, kernel, y = problem()
    path, direct = RidgePath.of(kernel, y)(ridge), ridge_solver(kernel, y)(ridge)
    assert torch.allclose(kernel @ direct + ridge * direct, y, atol=1e-9)
    assert torch.allclose(path, direct, rtol=1e-6, atol=1e-8)
    iterated = conjugate_gradients(kernel, y, ridge, rank=20, tolerance=1e-12)
    assert torch.allclose(iterated, direct, rtol=1e-5, atol=1e-7)


def test_a_solution_has_no_residual_and_a_wrong_one_has():
    _, kernel, y = problem()
    alpha = ridge_solver(kernel, y)(1e-3)
    assert ridge_residual(kernel, y, 1e-3, alpha) < 1e-12
    expected = float((kernel @ (1.1 * alpha) + 1.1e-3 * alpha - y).norm() / y.norm())
    assert ridge_residual(kernel, y, 1e-3, 1.1 * alpha) == pytest.approx(expected)
    assert ridge_residual(kernel, torch.zeros_like(y), 1e-3, torch.zeros_like(y)) == 0.0


def test_ridges_are_solved_by_cholesky():
    _, kernel, y = problem()
    solver = ridge_solver(kernel, y)
    assert isinstance(solver, CholeskyPath)
    for ridge in (1e-5, 1e-2):
        assert torch.allclose(solver(ridge), RidgePath.of(kernel, y)(ridge), rtol=1e-6, atol=1e-8)
    with pytest.raises(InvalidInput, match="`ridge`"):
        solver(-1.0)


def test_cholesky_decomposes_an_indefinite_matrix_once_for_all_ridges(monkeypatch):
    matrix, y = torch.diag(torch.tensor([1.0, 0.5, -1e-4], dtype=torch.float64)), torch.ones(3, 1)
    expected = {ridge: RidgePath.of(matrix, y)(ridge) for ridge in (1e-8, 1e-6)}
    decompose, calls = torch.linalg.eigh, []
    monkeypatch.setattr(torch.linalg, "eigh", lambda given: calls.append(1) or decompose(given))
    path = CholeskyPath(matrix, y)
    for ridge, solution in expected.items():
        assert torch.equal(path(ridge), solution)
    assert torch.allclose(path(1e-2)[2], torch.tensor(1 / (1e-2 - 1e-4), dtype=torch.float64))
    assert len(calls) == 1


@pytest.mark.parametrize(("bandwidth", "kept"), [(4.0, 1), (1e4, 0)])
def test_one_factor_in_float32_serves_all_ridges_where_the_matrix_allows(bandwidth, kept):
    rows = torch.randn(LARGE, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rows[:20] = rows[20:40] * (1 + 1e-12)  # nearly singular without the ridge
    squares = torch.cdist(rows, rows, compute_mode="donot_use_mm_for_euclid_dist").square()
    kernel = torch.exp(-squares / bandwidth**2) + (1e-2 if kept else 0) * torch.eye(LARGE)
    targets = torch.nn.functional.one_hot((rows[:, 0] > 0).long()).double()
    path = CholeskyPath(kernel, targets)
    # without the 1e-2 on the diagonal float32 cannot factor it, and float64 takes over
    for ridge in (1e-8, 1e-5, 1e-3) if kept else (1e-8,):
        assert ridge_residual(kernel, targets, ridge, path(ridge)) < (1e-11 if kept else 1e-4)
        assert len(path._kept) == kept


def test_a_matrix_left_indefinite_by_rounding_is_solved_by_its_spectrum():
    matrix = torch.diag(torch.tensor([1.0, 0.5, -1e-7], dtype=torch.float64))
    found = ridge_solver(matrix, torch.ones(3, 1))(1e-8)
    assert found.isfinite().all()
    assert torch.allclose(found[:2, 0], torch.tensor([1.0, 2.0], dtype=torch.float64), rtol=1e-6)


def test_conjugate_gradients_serve_columns_of_any_size():
    _, kernel, y = problem()
    targets = torch.cat([1e6 * y[:, :1], 1e-6 * y[:, 1:], torch.zeros_like(y[:, :1])], dim=1)
    ridge, tolerance = 1e-3, 1e-10
    solution = conjugate_gradients(kernel, targets, ridge, rank=20, tolerance=tolerance)
    residual = (kernel @ solution + ridge * solution - targets).norm(dim=0)
    assert (residual[:2] <= 1.01 * tolerance * targets[:, :2].norm(dim=0)).all()
    assert not solution[:, 2].any()


def test_conjugate_gradients_say_so_when_they_do_not_arrive():
    _, kernel, y = problem()
    with pytest.raises(Diverged, match="`ridge`"):
        conjugate_gradients(kernel, y, 1e-9, rank=2, most=2)
    with pytest.raises(InvalidInput, match="`ridge` must be finite and positive"):
        conjugate_gradients(kernel, y, 0.0)


def test_the_second_metric_is_the_normalised_gradient_outer_product_of_the_first_predictor():
    data, kernel, y = problem()
    found = learn_metric(
        data.x, y, data.x[:20], y[:20], kernel=ConvKernel(depth=2), rounds=1, ridges=(1e-3,), patience=None,
        dtype=torch.float64,
    )  # fmt: skip
    alpha = ridge_solver(kernel, y)(1e-3)
    expected = kernel_agop(data.x, alpha, kernel=ConvKernel(depth=2), dtype=torch.float64)
    assert torch.allclose(found.rounds[1].metric, expected / expected.norm(), atol=1e-7)


def test_rounds_and_ridges_are_chosen_by_validation_error_and_stop_early():
    data, _, y = problem()
    other = bars_in_noise(40, sigma=0.5, seed=0, split="choice", rows=6, columns=8)
    labels = torch.nn.functional.one_hot(other.y, 2).double()
    heard = []
    found = learn_metric(
        data.x, y, other.x, labels, kernel=ConvKernel(depth=2), rounds=6, patience=1, listen=heard.append
    )
    errors = [r.error for r in found.rounds]
    assert found.best == int(np.argmin(errors))
    assert len(errors) - 1 - found.best <= 1
    assert [r.number for r in heard] == list(range(len(errors)))
    for r in found.rounds:
        assert r.error == min(r.errors)
        assert float(r.metric.norm()) == pytest.approx(1.0)


def test_random_filters_have_the_covariance_of_the_metric():
    factor = torch.randn(4, 4, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    metric = factor @ factor.T
    drawn = random_filters(metric, 20000, seed=0, shape=(1, 2, 2)).flatten(1)
    # 20000 draws: entries are known to about 1 % of the largest
    assert (drawn.T @ drawn / 20000 - metric).abs().max() < 0.04 * metric.abs().max()


def test_settings_without_meaning_are_refused():
    data, _, y = problem(10)
    with pytest.raises(InvalidInput, match="`ridge`"):
        learn_metric(data.x, y, data.x, y, kernel=ConvKernel(depth=1), ridges=(-1.0,))
    with pytest.raises(InvalidInput, match="`rounds`"):
        learn_metric(data.x, y, data.x, y, kernel=ConvKernel(depth=1), rounds=-1)
    with pytest.raises(InvalidInput, match="`agop_images`"):
        learn_metric(data.x, y, data.x, y, kernel=ConvKernel(depth=1), agop_images=0)
