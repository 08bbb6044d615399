import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.theory import least_squares as ls
from reference.gradient_descent import iterate


def draw(n, d, *, seed=0, rank=None):
    generator = torch.Generator().manual_seed(seed)
    k = torch.randn(n, d, generator=generator, dtype=torch.float64)
    if rank is not None:
        k = k[:, :rank] @ torch.randn(rank, d, generator=generator, dtype=torch.float64)
    return k, torch.randn(n, generator=generator, dtype=torch.float64)


@given(
    n=st.integers(1, 20),
    d=st.integers(1, 12),
    steps=st.integers(0, 300),
    scaled=st.floats(0.01, 1.9),
    seed=st.integers(0, 99),
    start=st.booleans(),
)
def test_weights_equal_iterated_gradient_descent(n, d, steps, scaled, seed, start):
    k, y = draw(n, d, seed=seed)
    spectral = ls.spectrum(k)
    rate = scaled / spectral.largest
    initial = torch.linspace(-1, 1, d, dtype=torch.float64) if start else None
    closed = ls.weights(spectral, y, rate=rate, steps=steps, initial=initial)
    naive = iterate(k, y, rate=rate, steps=steps, initial=initial)
    assert (closed - naive).norm() <= 1e-9 * max(naive.norm().item(), 1e-3)


def test_constant_and_zero_patches_are_fine():
    for k in (torch.zeros(5, 3, dtype=torch.float64), torch.ones(5, 3, dtype=torch.float64)):
        spectral = ls.spectrum(k)
        y = torch.arange(5.0, dtype=torch.float64)
        for steps in (0, 1, 7):
            closed = ls.weights(spectral, y, rate=0.1, steps=steps)
            assert torch.allclose(closed, iterate(k, y, rate=0.1, steps=steps), atol=1e-12)


def test_several_outputs_at_once_equal_each_alone():
    k, _ = draw(15, 4)
    y = torch.randn(15, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    spectral = ls.spectrum(k)
    together = ls.weights(spectral, y, rate=0.01, steps=9)
    alone = torch.stack([ls.weights(spectral, y[:, i], rate=0.01, steps=9) for i in range(3)], 1)
    assert torch.allclose(together, alone, atol=1e-13)


@pytest.mark.parametrize("rank", [4, 9])
def test_time_up_to_1e12_is_stable_and_ends_at_the_optimum(rank):
    k, y = draw(30, 9, rank=rank)
    spectral = ls.spectrum(k)
    assert spectral.rank == rank
    best = torch.linalg.pinv(k) @ y
    rate = 0.9 / spectral.largest
    last = math.inf
    for steps in (0, 1, 10, 10**3, 10**6, 10**9, 10**12):
        w = ls.weights(spectral, y, rate=rate, steps=steps)
        assert w.isfinite().all()
        distance = (w - best).norm().item()
        assert distance <= last + 1e-12
        last = distance
    assert last < 1e-9 * best.norm()
    assert torch.allclose(ls.optimal_weights(spectral, y), best, atol=1e-9)


def test_tiny_eigenvalues_keep_their_own_pace():
    values = torch.tensor([1.0, 1e-9, 1e-25, 0.0], dtype=torch.float64)
    filtered = ls.filter_function(values, rate=0.5, steps=10**12)
    expected = torch.tensor([1.0, (1 - math.exp(-0.5e-9 * 1e12)) / 1e-9, 0.5e12, 0.5e12], dtype=torch.float64)
    assert torch.allclose(filtered, expected, rtol=1e-9)


@given(steps=st.integers(1, 200), seed=st.integers(0, 50))
def test_early_stopping_is_ridge_regression_with_the_spectral_regulariser(steps, seed):
    k, y = draw(20, 6, seed=seed)
    spectral = ls.spectrum(k)
    rate = 0.9 / spectral.largest
    ridge = spectral.matrix(ls.regulariser(spectral.values, rate=rate, steps=steps))
    solved = torch.linalg.solve(k.T @ k + ridge, k.T @ y)
    assert torch.allclose(solved, ls.weights(spectral, y, rate=rate, steps=steps), rtol=1e-9, atol=1e-12)


def test_the_regulariser_decreases_to_zero_and_tends_to_its_limit_for_singular_problems():
    values = torch.tensor([2.0, 0.1, 0.0], dtype=torch.float64)
    seen = torch.stack([ls.regulariser(values, rate=0.4, steps=t) for t in (1, 5, 50, 5000)])
    assert (seen.diff(dim=0) <= 0).all()
    assert seen[-1, 2] == pytest.approx(1 / (0.4 * 5000))
    assert seen[-1, 0] < 1e-300
    assert torch.isinf(ls.regulariser(values, rate=0.4, steps=0)).all()


def test_bad_times_and_bad_patches_are_refused():
    values = torch.tensor([1.0], dtype=torch.float64)
    with pytest.raises(InvalidInput, match=r"below 2/largest eigenvalue = 2; .*|below 2/largest"):
        ls.decay(values, rate=2.0, steps=1)
    with pytest.raises(InvalidInput, match="steps=-1"):
        ls.decay(values, rate=0.1, steps=-1)
    with pytest.raises(InvalidInput, match="rate=nan"):
        ls.decay(values, rate=math.nan, steps=1)
    with pytest.raises(InvalidInput, match="whole"):
        ls.decay(values, rate=1.5, steps=1.5)
    with pytest.raises(InvalidInput, match="NaN"):
        ls.spectrum(torch.full((2, 2), math.nan))
