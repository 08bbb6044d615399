"""Kernels with average pooling between layers against the recursion over all pairs of positions."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.kernels import ConvKernel, kernel_agop, kernel_gram, learn_metric
from firstlight.kernels.kernel import kernel_from
from reference.convolutional_kernels import matrix_with_pooling

EXACT, SINGLE = 1e-10, 2e-6


def images(n: int, c: int, h: int, w: int, seed: int = 0) -> torch.Tensor:
    return torch.randn(n, c, h, w, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def expected(kernel: ConvKernel, x: torch.Tensor, z: torch.Tensor, metric=None) -> torch.Tensor:
    return matrix_with_pooling(
        x, z, stride=kernel.stride, metric=metric, depth=kernel.depth, size=kernel.size, padding=kernel.padding,
        scale=kernel.scale, bias=kernel.bias_variance, kind=kernel.kind, pooling=kernel.pooling,
    )  # fmt: skip


def off(found: torch.Tensor, exact: torch.Tensor) -> float:
    return float((found - exact).abs().max() / exact.abs().max())


@st.composite
def cases(draw):
    depth, size, stride = draw(st.integers(2, 4)), draw(st.integers(1, 3)), draw(st.integers(1, 2))
    padding = draw(st.integers(0, (size - 1) // 2))
    layers = draw(st.lists(st.integers(1, depth - 1), unique=True, max_size=2))
    kernel = ConvKernel(
        depth=depth, size=size, padding=padding, stride=stride, readout="gap", pooling=tuple(sorted(layers)) or (1,),
        kind=draw(st.sampled_from(["ntk", "nngp"])), bias_variance=draw(st.sampled_from([0.0, 0.3])),
        weight_variance=draw(st.sampled_from([None, 2.0])),
    )  # fmt: skip
    least = 1
    for layer in range(depth - 1, 0, -1):  # backwards through the layers: what each needs from below
        least = max(1, least + size - 1 - 2 * padding)
        least = 2 * least if layer in kernel.pooling else least
    least = max(1, stride * (least - 1) + size - 2 * padding)
    h, w = (least + draw(st.integers(0, 3)) for _ in range(2))
    counts = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    return kernel, h, w, counts, draw(st.booleans()), draw(st.integers(0, 99))


@given(cases())
@settings(max_examples=25)
def test_values_equal_the_recursion_over_all_pairs_of_positions(case):
    kernel, h, w, (n, m, c), with_metric, seed = case
    if c == 1 and (kernel.size == 1 or h * w == 1):
        c = 2  # patches of one number are all parallel: every angle is a square root of rounding
    x, z = images(n, c, h, w, seed), images(m, c, h, w, seed + 1000)
    d = c * kernel.size**2
    factor = torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    metric = factor @ factor.T / d + 0.3 * torch.eye(d, dtype=torch.float64) if with_metric else None
    exact = expected(kernel, x, z, metric)
    assert off(kernel_gram(x, z, kernel=kernel, metric=metric, dtype=torch.float64), exact) < EXACT
    assert (
        off(kernel_gram(x, kernel=kernel, metric=metric, dtype=torch.float64), expected(kernel, x, x, metric))
        < EXACT
    )


def test_float32_keeps_six_digits_also_for_constant_empty_and_nearly_equal_images():
    x = images(6, 2, 8, 9)
    x[1] = 1.0
    x[2] = 0.0
    x[3, :, :4] = 0.0
    x[4] = x[0]
    x[5] = x[0] + 1e-5 * images(1, 2, 8, 9, seed=1)[0]
    kernel = ConvKernel(depth=3, padding=1, readout="gap", pooling=(1,))
    exact = expected(kernel, x, x)
    assert off(kernel_gram(x.float(), kernel=kernel), exact) < SINGLE
    assert off(kernel_gram(x, kernel=kernel, dtype=torch.float64), exact) < EXACT
    assert not kernel_gram(x, kernel=kernel)[2].any()


def test_the_myrtle_kernel_equals_its_definition_and_is_symmetric():
    kernel, x = ConvKernel.myrtle5(), images(3, 3, 8, 8)
    found = kernel_gram(x, kernel=kernel, dtype=torch.float64)
    assert off(found, expected(kernel, x, x)) < EXACT
    assert torch.equal(found, found.T)
    assert torch.linalg.eigvalsh(found).min() > 0


def test_windows_of_pooling_make_small_shifts_matter_less():
    # a bright square that moves by one pixel inside its window is the same image to pooling after 1 x 1 filters
    x = torch.zeros(2, 1, 8, 8, dtype=torch.float64)
    x[0, 0, 2, 2] = x[1, 0, 3, 3] = 1.0
    pooled = ConvKernel(depth=2, size=1, readout="gap", pooling=(1,))
    found = kernel_gram(x, kernel=pooled, dtype=torch.float64)
    assert torch.allclose(found, found[0, 0].expand(2, 2))


def test_what_makes_no_sense_is_refused():
    with pytest.raises(InvalidInput, match="`readout` must be 'gap'"):
        ConvKernel(depth=3, pooling=(1,))
    for wrong in ((3,), (0,), (2, 1), (1, 1)):
        with pytest.raises(InvalidInput, match="`pooling`"):
            ConvKernel(depth=3, readout="gap", pooling=wrong)
    with pytest.raises(InvalidInput, match="`depth` must be at most 1"):
        kernel_gram(images(2, 1, 4, 4), kernel=ConvKernel(depth=2, readout="gap", pooling=(1,)))


def test_gradients_are_refused_before_anything_is_computed():
    kernel, x = ConvKernel.myrtle5(), images(4, 1, 8, 8)
    y = torch.eye(4, dtype=torch.float64)
    with pytest.raises(InvalidInput, match="no pooling between its layers"):
        kernel_agop(x, y, kernel=kernel)
    with pytest.raises(InvalidInput, match="no pooling between its layers"):
        learn_metric(x, y, x, y, kernel=kernel, rounds=1)
    assert len(learn_metric(x, y, x, y, kernel=kernel, rounds=0).rounds) == 1


def test_a_kernel_with_pooling_comes_back_from_its_settings():
    kernel = ConvKernel.myrtle5(kind="nngp")
    settings = {**kernel.__dict__, "pooling": list(kernel.pooling)}
    assert kernel_from(settings) == kernel
