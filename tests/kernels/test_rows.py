"""Kernels on plain rows, by matrix products, against the definition pair by pair."""

from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight.kernels import PatchKernel, kernel_agop, kernel_gram
from firstlight.kernels.rows import BLOCK
from reference.convolutional_kernels import agop, patch_kernel_matrix, patch_pair_value


def rows(n: int, d: int, seed: int) -> torch.Tensor:
    return torch.randn(n, d, 1, 1, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def expected_gram(kernel, x, z, metric=None):
    return patch_kernel_matrix(
        x, z, size=1, padding=0, stride=1, bandwidth=kernel.bandwidth, profile=kernel.profile, metric=metric
    )


def expected_agop(kernel, x, alpha, z, metric=None):
    metric = torch.eye(x.shape[1], dtype=torch.float64) if metric is None else metric
    value = partial(patch_pair_value, metric=metric, bandwidth=kernel.bandwidth, profile=kernel.profile)
    return agop(x, alpha, z, value, size=1, stride=1, padding=0)


def off(found, expected):
    return float((found - expected).norm() / expected.norm())


@st.composite
def tables(draw):
    n, m, d, seed = (draw(st.integers(1, most)) for most in (6, 4, 5, 99))
    x, z = rows(n, d, seed) + draw(st.sampled_from([0.0, 30.0])), rows(m, d, seed + 100)
    if draw(st.booleans()):
        x[-1], z[0] = x[0], x[0]
    if draw(st.booleans()):
        x[:, 0], z[:, 0] = 7.0, 7.0
    metric = None
    if draw(st.booleans()):
        factor = rows(d, d, seed + 200)[..., 0, 0]
        metric = factor @ factor.T / d + 0.3 * torch.eye(d)
    profile = draw(st.sampled_from(["laplace", "gaussian"]))
    return PatchKernel(profile=profile, size=1, bandwidth=1.7), x, z, metric


@given(tables())
@settings(max_examples=60)
def test_values_and_gradients_equal_the_definition(table):
    kernel, x, z, metric = table
    double = {"kernel": kernel, "metric": metric, "dtype": torch.float64}
    assert torch.allclose(kernel_gram(x, z, **double), expected_gram(kernel, x, z, metric), atol=1e-12)
    assert torch.allclose(kernel_gram(x, **double), expected_gram(kernel, x, x, metric), atol=1e-12)
    single = {"kernel": kernel, "metric": metric}
    assert torch.allclose(kernel_gram(x, z, **single), expected_gram(kernel, x, z, metric), atol=1e-5)
    alpha = rows(len(x), 3, 5)[..., 0, 0]
    slow = expected_agop(kernel, x, alpha, z, metric)
    size = max(float(slow.norm()), 1e-9)  # one point at its own centre: there is no gradient
    assert float((kernel_agop(x, alpha, z, **double) - slow).norm()) < 1e-9 * size


@pytest.mark.parametrize("profile", ["laplace", "gaussian"])
@pytest.mark.parametrize("distance", [1e-1, 1e-2, 1e-3, 1e-5])
def test_near_duplicates_keep_their_digits_in_float32(profile, distance):
    kernel = PatchKernel(profile=profile, size=1, bandwidth=3.0)
    x = rows(40, 20, 0)
    x[20:] = x[:20] + distance * rows(20, 20, 1)
    alpha = rows(40, 2, 2)[..., 0, 0]
    assert off(kernel_gram(x, kernel=kernel), expected_gram(kernel, x, x)) < 1e-6
    exact = kernel_agop(x, alpha, kernel=kernel, dtype=torch.float64)
    assert off(exact, expected_agop(kernel, x, alpha, x)) < 1e-9
    assert off(kernel_agop(x, alpha, kernel=kernel), exact) < 1e-5


def test_a_metric_of_rank_one_where_most_pairs_are_close_keeps_float32_exact():
    kernel, x = PatchKernel(size=1, bandwidth=1.0), rows(60, 10, 3)
    x[:, 1:] *= 1e-3
    x[:, 0] = (x[:, 0] > 0).double() + 1e-4 * x[:, 0]
    alpha, metric = rows(60, 2, 4)[..., 0, 0], torch.eye(10, dtype=torch.float64)
    single = kernel_agop(x, alpha, kernel=kernel, metric=metric)
    assert off(single, expected_agop(kernel, x, alpha, x, metric)) < 1e-5


def test_blocks_and_threads_leave_every_entry_as_it_is():
    kernel, x = PatchKernel(size=1, bandwidth=4.0), rows(BLOCK + 70, 12, 6).float()
    whole = kernel_gram(x, kernel=kernel, dtype=torch.float64, n_jobs=1)
    assert torch.equal(whole, whole.T)
    assert (whole.diagonal() == 1).all()
    distances = torch.cdist(
        x.double().flatten(1), x.double().flatten(1), compute_mode="donot_use_mm_for_euclid_dist"
    )
    assert torch.allclose(whole, torch.exp(-distances / 4), atol=1e-12)
    assert torch.equal(whole, kernel_gram(x, kernel=kernel, dtype=torch.float64, n_jobs=3))
    alpha = rows(len(x), 2, 7)[..., 0, 0]
    one, three = (kernel_agop(x, alpha, kernel=kernel, n_jobs=jobs) for jobs in (1, 3))
    assert torch.equal(one, three)
    assert float(torch.linalg.eigvalsh(one)[0]) > -1e-12 * float(one.norm())
