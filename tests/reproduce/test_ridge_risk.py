"""The predicted error of ridge regression equals what Gaussian examples give, and its parts equal their definitions."""

import itertools
import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from reproduce.studies.newer_papers.ridge_risk import (
    hermite_modes,
    hermite_values,
    implicit_regulariser,
    ridge_risk,
)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(m=st.integers(1, 20), n=st.integers(1, 30), ridge=st.floats(1e-3, 10), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_implicit_regulariser_solves_its_equation(m, n, ridge, seed):
    spectrum = normal(m, seed=seed).square() + 1e-3
    kappa = implicit_regulariser(spectrum, n, ridge)
    total = sum(value / (value + kappa) for value in spectrum.tolist()) + ridge / kappa
    assert total == pytest.approx(n, rel=1e-8)


def test_without_a_ridge_it_vanishes_once_there_are_as_many_examples_as_modes():
    spectrum = torch.tensor([1.0, 0.5, 0.1])
    assert implicit_regulariser(spectrum, 3, 0.0) == 0
    assert implicit_regulariser(spectrum, 2, 0.0) > 0


@pytest.mark.parametrize(("n", "ridge", "noise"), [(30, 0.5, 0.0), (60, 0.1, 0.3), (200, 1.0, 0.1)])
def test_the_risk_is_that_of_ridge_regression_on_gaussian_examples(n, ridge, noise):
    d = 120
    spectrum = 1 / torch.arange(1, d + 1).double() ** 1.2
    coefficients = normal(d, seed=1) / torch.arange(1, d + 1)
    errors = []
    for draw in range(30):
        z = normal(n, d, seed=draw + 10)
        x = z * spectrum.sqrt()
        y = z @ coefficients + noise**0.5 * normal(n, seed=draw + 500)
        alpha = torch.linalg.solve(x @ x.T + ridge * torch.eye(n), y)
        # error on all of the population: coefficients of the fit in the orthonormal modes
        fitted = (x.T @ alpha) * spectrum.sqrt()
        errors.append(float((fitted - coefficients).square().sum()) + noise)
    mean, spread = torch.tensor(errors).mean(), torch.tensor(errors).std() / 30**0.5
    predicted = ridge_risk(spectrum, coefficients.square(), n, ridge=ridge, noise=noise)
    # three standard errors, and corrections of order one over the number of resolved modes
    assert abs(predicted - float(mean)) < 3 * float(spread) + 0.03 * predicted


@given(d=st.integers(1, 4), degrees=st.integers(1, 4), count=st.integers(1, 30), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_the_largest_modes_equal_a_search_of_all(d, degrees, count, seed):
    variances = normal(d, seed=seed).abs().sort(descending=True).values
    levels = normal(degrees, seed=seed + 1).abs()
    values, indices = hermite_modes(variances, levels, count=count)
    every = [
        float(levels[sum(a)]) * math.prod(float(v) ** k for v, k in zip(variances, a, strict=True))
        for a in itertools.product(range(degrees), repeat=d)
        if sum(a) < degrees
    ]
    expected = sorted(every, reverse=True)[:count]
    assert values.tolist() == pytest.approx(expected, rel=1e-9)
    assert len({tuple(row) for row in indices.tolist()}) == len(indices)


def test_hermite_products_are_orthonormal_for_gaussian_numbers():
    nodes, weights = (torch.from_numpy(a) for a in __import__("numpy").polynomial.hermite_e.hermegauss(12))
    weights = weights / weights.sum()
    grid = torch.cartesian_prod(nodes, nodes)
    mass = torch.cartesian_prod(weights, weights).prod(1)
    degrees = torch.tensor([[0, 0], [1, 0], [0, 1], [2, 0], [1, 1], [3, 1], [0, 4]])
    table = hermite_values(grid, degrees)
    assert torch.allclose(table.T @ (mass[:, None] * table), torch.eye(7).double(), atol=1e-10)


def test_what_has_no_risk_is_refused():
    with pytest.raises(InvalidInput, match="at least 0"):
        implicit_regulariser(torch.zeros(3), 2, 0.1)
    with pytest.raises(InvalidInput, match="must match"):
        ridge_risk(torch.ones(3), torch.ones(2), 2, ridge=0.1)
    with pytest.raises(InvalidInput, match="decreasing"):
        hermite_modes(torch.tensor([0.1, 0.5]), torch.ones(2), count=2)
    assert ridge_risk(torch.ones(3), torch.ones(3), 3, ridge=0.0, noise=1.0) == math.inf
