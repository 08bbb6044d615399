"""Closed forms of the linearised least squares equal plain linear algebra and plain iteration."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.theory import linearized as theory


def drawn(n, p, seed, rank=None):
    generator = torch.Generator().manual_seed(seed)
    matrix = torch.randn(n, p, generator=generator, dtype=torch.float64)
    if rank is not None:
        left = torch.randn(n, rank, generator=generator, dtype=torch.float64)
        matrix = left @ matrix[:rank]
    return matrix, torch.randn(n, 2, generator=generator, dtype=torch.float64)


@given(n=st.integers(1, 7), p=st.integers(1, 7), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_both_forms_give_the_pseudo_inverse(n, p, seed):
    matrix, r = drawn(n, p, seed)
    expected = torch.linalg.pinv(matrix) @ r
    size = max(1.0, float(torch.linalg.pinv(matrix).norm()) ** 3)
    for fit in (theory.fit_from_jacobian(matrix, r), theory.fit_from_gram(matrix @ matrix.T, r)):
        assert (matrix.T @ fit.solution() - expected).abs().max() <= 1e-11 * size
        ridge = matrix.T @ torch.linalg.solve(matrix @ matrix.T + 0.3 * torch.eye(n).double(), r)
        assert torch.allclose(matrix.T @ fit.solution(ridge=0.3), ridge, atol=1e-10)


@given(n=st.integers(1, 6), p=st.integers(1, 6), steps=st.integers(0, 30), seed=st.integers(0, 99))
@settings(max_examples=40, deadline=None)
def test_any_step_equals_the_iteration(n, p, steps, seed):
    matrix, r = drawn(n, p, seed)
    fit = theory.fit_from_jacobian(matrix, r)
    rate = 0.9 / fit.largest
    u = torch.zeros(p, 2, dtype=torch.float64)
    for _ in range(steps):
        u = u - rate * matrix.T @ (matrix @ u - r)
    assert torch.allclose(matrix.T @ fit.after(steps=steps, rate=rate), u, atol=1e-10)


def test_small_steps_approach_the_flow_and_the_flow_the_solution():
    matrix, r = drawn(4, 6, 0)
    fit = theory.fit_from_gram(matrix @ matrix.T, r)
    flow = fit.at_time(0.5)
    errors = [float((fit.after(steps=s, rate=0.5 / s) - flow).norm()) for s in (100, 1000, 10000)]
    assert errors[0] > 8 * errors[1] > 64 * errors[2]
    assert torch.allclose(fit.at_time(1e6), fit.solution(), atol=1e-8)


def test_rank_deficient_problems_ignore_what_cannot_be_reached():
    matrix, r = drawn(5, 6, 0, rank=2)
    for fit in (theory.fit_from_gram(matrix @ matrix.T, r), theory.fit_from_jacobian(matrix, r)):
        assert len(fit.values) == 2
        assert torch.allclose(matrix.T @ fit.solution(), torch.linalg.pinv(matrix, rtol=1e-10) @ r, atol=1e-9)


def test_bad_input_is_refused():
    matrix, r = drawn(3, 4, 0)
    with pytest.raises(InvalidInput, match="one row per row of `gram`, 3"):
        theory.fit_from_gram(matrix @ matrix.T, r[:2])
    with pytest.raises(InvalidInput, match="must be square"):
        theory.fit_from_gram(matrix, r)
    with pytest.raises(InvalidInput, match="finite"):
        theory.fit_from_jacobian(matrix * torch.nan, r)
    with pytest.raises(InvalidInput, match="`ridge` must be"):
        theory.fit_from_jacobian(matrix, r).solution(ridge=-1)
    with pytest.raises(InvalidInput, match="diverges"):
        theory.fit_from_jacobian(matrix, r).after(steps=3, rate=1e3)
    with pytest.raises(InvalidInput, match="Unknown squared loss"):
        theory.rate_of(0.1, n=3, loss="huber")
