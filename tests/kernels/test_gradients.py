"""Gradient outer products of kernel predictors against automatic differentiation of the recursion."""

import math
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.kernels import ConvKernel, PatchKernel, kernel_agop
from firstlight.kernels.gradients import FEW_TERMS
from reference.convolutional_kernels import agop, pair_value, patch_pair_value

EXACT, SINGLE = 1e-10, 1e-5


def images(n: int, c: int, h: int, w: int, seed: int) -> torch.Tensor:
    return torch.randn(n, c, h, w, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def random_metric(d: int, seed: int) -> torch.Tensor:
    """Well conditioned: patches that a metric makes nearly parallel have slopes that no arithmetic can tell."""
    factor = torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return factor @ factor.T / d + 0.3 * torch.eye(d)


def off(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).norm() / expected.norm())


def expected(kernel, x, alpha, z, metric=None):
    c = x.shape[1]
    metric = torch.eye(c * kernel.size**2, dtype=torch.float64) if metric is None else metric
    if isinstance(kernel, PatchKernel):
        value = partial(patch_pair_value, metric=metric, bandwidth=kernel.bandwidth, profile=kernel.profile)
    else:
        value = partial(
            pair_value, metric=metric, depth=kernel.depth, size=kernel.size, padding=kernel.padding,
            scale=kernel.scale, factor=kernel.scale / c, bias=kernel.bias_variance, kind=kernel.kind,
            readout=kernel.readout,
        )  # fmt: skip
    return agop(x, alpha, z, value, size=kernel.size, stride=kernel.stride, padding=kernel.padding)


@st.composite
def cases(draw):
    size = draw(st.integers(1, 3) | st.just(7))
    readout = draw(st.sampled_from(["flatten", "gap"]))
    depth, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    padding = (size - 1) // 2 if size > 3 else draw(st.integers(0, (size - 1) // 2))
    least = stride * (depth - 1) * (size - 1 - 2 * padding) + size - 2 * padding
    h, w = (max(1, least) + draw(st.integers(0, 2)) for _ in range(2))
    kernel = ConvKernel(
        depth=depth, size=size, padding=padding, stride=stride,
        readout=readout,
        kind=draw(st.sampled_from(["ntk", "nngp"])),
        bias_variance=draw(st.sampled_from([0.0, 0.3])),
        weight_variance=draw(st.sampled_from([None, 2.0])),
    )  # fmt: skip
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 2)), h, w
    return kernel, shape, draw(st.integers(1, 3)), draw(st.booleans()), draw(st.integers(0, 99))


@given(cases())
@settings(max_examples=20)
def test_gradient_outer_products_equal_automatic_differentiation(case):
    kernel, (n, c, h, w), m, with_metric, seed = case
    if c == 1 and (kernel.size == 1 or h * w == 1):
        c = 2  # patches of one number are all parallel: every slope is a limit
    x, z = images(n, c, h, w, seed), images(m, c, h, w, seed + 1000)
    alpha = torch.randn(n, 3, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    metric = random_metric(c * kernel.size**2, seed) if with_metric else None
    slow = expected(kernel, x, alpha, z, metric)
    for engine in ("compiled", "tensors"):
        found = partial(kernel_agop, x, alpha, z, kernel=kernel, metric=metric, engine=engine)
        assert off(found(dtype=torch.float64), slow) < EXACT
        assert off(found(), slow) < SINGLE


@pytest.mark.parametrize("engine", ["compiled", "tensors"])
@pytest.mark.parametrize("readout", ["flatten", "gap"])
def test_empty_borders_duplicates_and_the_centres_themselves_are_defined(readout, engine):
    x = images(6, 1, 9, 9, 3).abs()
    x[:, :, :3] = 0
    x[:, :, :, :2] = 0
    x[3], x[4], x[5] = x[0], x[1] * (1 + 1e-3), 0
    alpha = torch.randn(6, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = ConvKernel(depth=2, readout=readout)
    slow = expected(kernel, x, alpha, x)
    assert off(kernel_agop(x, alpha, kernel=kernel, engine=engine, dtype=torch.float64), slow) < EXACT
    assert off(kernel_agop(x, alpha, kernel=kernel, engine=engine), slow) < SINGLE


@pytest.mark.parametrize("engine", ["compiled", "tensors"])
@pytest.mark.parametrize("distance", [1e-1, 3e-2, 1e-2, 1e-3, 5e-4])
def test_near_duplicates_do_not_spoil_the_gradient(distance, engine):
    x = images(4, 2, 8, 8, 0)  # as many terms as float32 is trusted with: fewer are done in float64
    assert len(x) ** 2 * 36 >= FEW_TERMS
    z = x + distance * images(4, 2, 8, 8, 1)
    alpha = torch.randn(4, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = ConvKernel(depth=3)
    slow = expected(kernel, x, alpha, z)
    # a direction between points at this distance is known to eps / distance² of the cosine
    exact = kernel_agop(x, alpha, z, kernel=kernel, engine=engine, dtype=torch.float64)
    assert off(exact, slow) < EXACT + 1e-14 / distance**2
    assert off(kernel_agop(x, alpha, z, kernel=kernel, engine=engine), slow) < SINGLE


@pytest.mark.parametrize("engine", ["compiled", "tensors"])
@pytest.mark.parametrize("padding", [0, 1])
@pytest.mark.parametrize("distance", [1e-2, 1e-3])
def test_near_duplicates_and_moved_copies_do_not_spoil_pooled_gradients(distance, padding, engine):
    x = images(5, 1, 8, 8, 0)
    x[1] = x[0] + distance * x[1]
    x[3] = x[2].roll(2, -1)
    x[4, :, :, :4] = 0.5
    alpha = torch.randn(5, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = ConvKernel(depth=2, padding=padding, readout="gap")
    exact = kernel_agop(x, alpha, kernel=kernel, engine=engine, dtype=torch.float64)
    assert off(kernel_agop(x, alpha, kernel=kernel, engine=engine), exact) < SINGLE


@given(st.sampled_from(["laplace", "gaussian"]), st.booleans(), st.integers(0, 99))
@settings(max_examples=10)
def test_gradients_of_patch_kernels_equal_automatic_differentiation(profile, with_metric, seed):
    x, z = images(4, 2, 5, 4, seed), images(3, 2, 5, 4, seed + 1)
    z[1] = x[2]
    alpha = torch.randn(4, 2, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    kernel = PatchKernel(profile=profile, size=2, bandwidth=1.3)
    metric = random_metric(8, seed) if with_metric else None
    slow = expected(kernel, x, alpha, z, metric)
    assert off(kernel_agop(x, alpha, z, kernel=kernel, metric=metric), slow) < EXACT


def test_more_images_than_a_tile_and_any_number_of_threads_give_one_answer():
    x, z = images(70, 1, 5, 5, 0), images(40, 1, 5, 5, 1)
    alpha = torch.randn(70, 2, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    kernel = ConvKernel(depth=1)
    one = kernel_agop(x, alpha, z, kernel=kernel, n_jobs=1)
    assert torch.equal(one, kernel_agop(x, alpha, z, kernel=kernel, n_jobs=2))
    assert off(one, expected(kernel, x, alpha, z)) < SINGLE


def test_coefficients_that_do_not_fit_are_refused():
    x = images(3, 1, 4, 4, 0)
    for alpha in (torch.zeros(2, 1), torch.full((3, 1), math.nan)):
        with pytest.raises(InvalidInput, match="`alpha`"):
            kernel_agop(x, alpha, kernel=ConvKernel(depth=1))


def test_the_result_is_positive_semidefinite_although_gradients_are_float32():
    x = images(40, 8, 6, 6, 0)  # patches of 72 entries, few of which matter
    alpha = torch.randn(40, 1, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    metric = torch.zeros(72, 72, dtype=torch.float64)
    metric[:2, :2] = torch.eye(2)
    found = kernel_agop(x, alpha, kernel=ConvKernel(depth=1), metric=metric)
    values = torch.linalg.eigvalsh(found)
    assert values[0] > -1e-14 * values[-1]
