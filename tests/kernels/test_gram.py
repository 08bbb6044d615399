"""Gram matrices against the recursion written out with all pairs of positions."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.kernels import ConvKernel, PatchKernel, kernel_gram, median_bandwidth
from firstlight.maths import PatchGeometry
from reference.convolutional_kernels import kernel_matrix, patch_kernel_matrix

EXACT = 1e-12  # of the largest entry: float64, a few hundred operations deep
SINGLE = 1e-6


def images(n: int, c: int, h: int, w: int, seed: int) -> torch.Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(n, c, h, w, generator=generator, dtype=torch.float64)


def random_metric(d: int, seed: int) -> torch.Tensor:
    factor = torch.randn(d, d, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)
    return factor @ factor.T / d


def off(found: torch.Tensor, expected: torch.Tensor) -> float:
    return float((found - expected).abs().max() / expected.abs().max())


@st.composite
def cases(draw):
    """Ugly shapes on purpose: one image, one channel, images no larger than what the layers need, or than a filter."""
    size = draw(st.integers(1, 4) | st.sampled_from([7, 12]))
    padding = (size - 1) // 2 if size > 4 else draw(st.integers(0, (size - 1) // 2))
    depth, stride = draw(st.integers(1, 3)), draw(st.integers(1, 2))
    least = stride * (depth - 1) * (size - 1 - 2 * padding) + size - 2 * padding
    h, w = (max(1, least) + draw(st.integers(0, 2)) for _ in range(2))
    kernel = ConvKernel(
        depth=depth,
        size=size,
        padding=padding,
        stride=stride,
        readout=draw(st.sampled_from(["flatten", "gap"])),
        kind=draw(st.sampled_from(["ntk", "nngp"])),
        bias_variance=draw(st.sampled_from([0.0, 0.3])),
        weight_variance=draw(st.sampled_from([None, 2.0])),
    )
    shape = draw(st.integers(1, 3)), draw(st.integers(1, 3)), h, w
    return kernel, shape, draw(st.integers(1, 3)), draw(st.booleans()), draw(st.integers(0, 99))


def expected(kernel: ConvKernel, x: torch.Tensor, z: torch.Tensor, metric=None) -> torch.Tensor:
    return kernel_matrix(
        x, z, metric=metric, stride=kernel.stride, depth=kernel.depth, size=kernel.size,
        padding=kernel.padding, scale=kernel.scale, bias=kernel.bias_variance, kind=kernel.kind,
        readout=kernel.readout,
    )  # fmt: skip


@given(cases())
@settings(max_examples=25)
def test_every_kernel_equals_the_recursion_with_all_pairs_of_positions(case):
    kernel, (n, c, h, w), m, with_metric, seed = case
    x, z = images(n, c, h, w, seed), images(m, c, h, w, seed + 1000)
    x[0, :, : h // 2] = 0  # zero patches
    metric = random_metric(c * kernel.size**2, seed) if with_metric else None
    slow = expected(kernel, x, z, metric)
    # opposite images have a kernel of 0; what rounding may be is measured by K(x, x)
    size = float(expected(kernel, z[:1], z[:1], metric).max() + slow.abs().max())
    for dtype, bound in ((torch.float64, EXACT), (torch.float32, SINGLE)):
        for engine in ("compiled", "tensors"):
            fast = kernel_gram(x, z, kernel=kernel, metric=metric, dtype=dtype, engine=engine)
            assert float((fast - slow).abs().max()) < bound * size


@pytest.mark.parametrize("readout", ["flatten", "gap"])
def test_symmetric_gram_equals_the_rectangular_one(readout):
    x = images(40, 2, 6, 7, 0)  # more than one tile
    kernel = ConvKernel(depth=2, readout=readout)
    square = kernel_gram(x, kernel=kernel, dtype=torch.float64)
    assert torch.equal(square, square.T)
    assert off(square, kernel_gram(x, x, kernel=kernel, dtype=torch.float64)) < EXACT


@pytest.mark.parametrize("readout", ["flatten", "gap"])
def test_digits_with_empty_borders_and_duplicates_keep_their_digits(readout):
    x = images(6, 1, 9, 9, 3).abs()
    x[:, :, :3] = 0
    x[:, :, :, :2] = 0
    x[3], x[4], x[5] = x[0], x[1] * (1 + 1e-3), 0  # a duplicate, a brighter copy, an empty image
    kernel = ConvKernel(depth=3, readout=readout)
    slow = expected(kernel, x, x)
    for found in (
        kernel_gram(x, kernel=kernel, dtype=torch.float64),
        kernel_gram(x, x, kernel=kernel, dtype=torch.float64),
    ):
        assert off(found, slow) < EXACT
    assert off(kernel_gram(x, kernel=kernel), slow) < SINGLE
    assert off(kernel_gram(x, x, kernel=kernel), slow) < SINGLE
    assert (kernel_gram(x, kernel=kernel)[5] == 0).all()


@pytest.mark.parametrize("readout", ["flatten", "gap"])
@pytest.mark.parametrize("distance", [1e-1, 3e-2, 1e-2, 1e-3, 1e-4, 1e-5])
def test_near_duplicates_in_float32_are_as_good_as_in_float64(distance, readout):
    x = images(3, 2, 8, 8, 0)
    z = x + distance * images(3, 2, 8, 8, 1)
    kernel = ConvKernel(depth=3, readout=readout)
    slow = expected(kernel, x, z)
    # the angle of nearly parallel patches is known to eps / angle, whoever computes it; some of the patches
    # are a hundred times closer than the images
    assert off(kernel_gram(x, z, kernel=kernel, dtype=torch.float64), slow) < EXACT + 1e-13 / distance
    assert off(kernel_gram(x, z, kernel=kernel), slow) < SINGLE


@pytest.mark.parametrize("engine", ["compiled", "tensors"])
@pytest.mark.parametrize(
    "kernel",
    [
        ConvKernel(depth=3, readout="gap"),
        ConvKernel(depth=2, padding=1, readout="gap"),
        ConvKernel(depth=2, padding=1, readout="gap", pooling=(1,)),
    ],
)
@pytest.mark.parametrize("channels", [1, 3])
def test_images_with_plain_surfaces_keep_their_digits_when_pooled(channels, kernel, engine):
    # parallel patches stand at different places of the two images; rounding finds angles between them
    generator = torch.Generator().manual_seed(0)
    for _ in range(3):
        x = torch.rand(5, channels, 12, 12, generator=generator)
        x[0, :, :, :6] = x[0, :, :1, :1]
        x[1, :, :, 6:] = 0.37 * x[0, :, :1, :1]
        x[2] = x[2, :, :1, :1]
        x[3, :, :6] = 0.9 * x[2, :, :1, :1]
        exact = kernel_gram(x, kernel=kernel, dtype=torch.float64)
        for found in (
            kernel_gram(x, kernel=kernel, engine=engine),
            kernel_gram(x, x, kernel=kernel, engine=engine),
        ):
            assert float(((found - exact) / exact).abs().max()) < SINGLE


@pytest.mark.parametrize("with_metric", [False, True])
@pytest.mark.parametrize("size", [5, 9, 13, 17])
def test_filters_much_larger_than_the_image_find_room(size, with_metric):
    x = images(3, 1, 5, 4, 0)
    metric = random_metric(size**2, 0) if with_metric else None
    kernel = ConvKernel(depth=3, size=size, padding=(size - 1) // 2, readout="gap")
    slow = expected(kernel, x, x, metric)
    assert off(kernel_gram(x, kernel=kernel, metric=metric, dtype=torch.float64), slow) < EXACT
    assert off(kernel_gram(x, kernel=kernel, metric=metric), slow) < SINGLE


@pytest.mark.parametrize("readout", ["flatten", "gap"])
def test_two_images_have_the_same_bits_wherever_they_stand(readout):
    x = images(11, 2, 7, 6, 3)
    kernel = ConvKernel(depth=2, readout=readout)
    whole = kernel_gram(x, kernel=kernel)
    for i, others in ((2, [5]), (0, [10, 3, 4]), (4, list(range(5, 11)))):
        assert torch.equal(kernel_gram(x[i : i + 1], x[others], kernel=kernel)[0], whole[i, others])
    assert torch.equal(whole, whole.T)


def test_constant_images_give_the_closed_form():
    ones = torch.ones(2, 3, 7, 7)
    ones[1] *= 2
    # equal directions everywhere: every layer multiplies by q², the tangent part counts the layers
    found = kernel_gram(ones, kernel=ConvKernel(depth=2, size=3), dtype=torch.float64)
    assert (
        found.tolist() == pytest.approx(np.array([[243.0, 486.0], [486.0, 972.0]]).ravel().tolist())
        or (found - torch.tensor([[243.0, 486.0], [486.0, 972.0]])).abs().max() < 1e-9
    )


def test_one_hidden_layer_is_the_mean_of_the_dual_activation_over_positions():
    x, z = images(2, 1, 4, 5, 0), images(2, 1, 4, 5, 1)
    a, b = (
        x.unfold(2, 3, 1).unfold(3, 3, 1).reshape(2, 6, 9),
        z.unfold(2, 3, 1).unfold(3, 3, 1).reshape(2, 6, 9),
    )
    norm = a.norm(dim=2)[:, None] * b.norm(dim=2)[None]
    t = torch.einsum("ipd,jpd->ijp", a, b)
    angle = torch.arccos(t / norm)
    closed = ((t * (math.pi - angle) + (norm**2 - t**2).sqrt()) / math.pi).mean(2)
    assert (
        off(kernel_gram(x, z, kernel=ConvKernel(depth=1, kind="nngp"), dtype=torch.float64), closed) < EXACT
    )


@given(
    st.sampled_from(["laplace", "gaussian"]), st.integers(1, 3), st.integers(1, 2), st.integers(0, 1),
    st.booleans(), st.integers(0, 99),
)  # fmt: skip
@settings(max_examples=15)
def test_patch_kernels_equal_their_definition(profile, size, stride, padding, with_metric, seed):
    x, z = images(3, 2, 4, 5, seed), images(2, 2, 4, 5, seed + 1)
    z[1] = x[1]
    kernel = PatchKernel(profile=profile, size=size, stride=stride, padding=padding, bandwidth=1.7)
    metric = random_metric(2 * size**2, seed) if with_metric else None
    slow = patch_kernel_matrix(
        x, z, size=size, padding=padding, stride=stride, bandwidth=1.7, profile=profile, metric=metric
    )
    assert off(kernel_gram(x, z, kernel=kernel, metric=metric, dtype=torch.float64), slow) < EXACT
    assert off(kernel_gram(x, z, kernel=kernel, metric=metric), slow) < SINGLE


def test_grams_are_symmetric_positive_semidefinite_and_indifferent_to_threads():
    x = images(70, 1, 6, 6, 5)
    kernel = ConvKernel(depth=2)
    one, two = kernel_gram(x, kernel=kernel, n_jobs=1), kernel_gram(x, kernel=kernel, n_jobs=2)
    assert torch.equal(one, two)
    assert torch.linalg.eigvalsh(kernel_gram(x, kernel=kernel, dtype=torch.float64))[0] > 0


def test_the_tensor_engine_agrees_with_the_compiled_one_on_more_images_than_a_tile():
    x = images(40, 2, 7, 7, 0)
    x[35], x[20] = x[1], x[2] + 1e-3 * x[3]
    for kernel in (ConvKernel(depth=2), ConvKernel(depth=2, readout="gap")):
        compiled = kernel_gram(x, kernel=kernel, engine="compiled", dtype=torch.float64)
        assert off(kernel_gram(x, kernel=kernel, engine="tensors", dtype=torch.float64), compiled) < EXACT
        assert off(kernel_gram(x, kernel=kernel, engine="tensors"), compiled) < SINGLE


def test_an_engine_that_does_not_exist_is_refused():
    with pytest.raises(InvalidInput, match="compiled"):
        kernel_gram(images(2, 1, 4, 4, 0), kernel=ConvKernel(depth=1), engine="steam")


def test_a_memory_mapped_matrix_is_filled_in_place(tmp_path):
    x = images(5, 1, 5, 5, 0)
    room = np.memmap(tmp_path / "gram", dtype=np.float32, mode="w+", shape=(5, 5))
    kernel_gram(x, kernel=ConvKernel(depth=1), out=room)
    assert np.allclose(room, kernel_gram(x, kernel=ConvKernel(depth=1)), rtol=1e-6)


def test_bandwidth_is_a_median_distance_of_patches():
    x = torch.zeros(2, 1, 4, 4)
    x[1] = 3.0
    assert median_bandwidth(x, PatchGeometry.square(2)) == pytest.approx(6.0)


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"depth": 0}, "`depth`"),
        ({"padding": 2}, "`padding`"),
        ({"readout": "mean"}, "readout"),
        ({"kind": "tangent"}, "kind"),
        ({"bias_variance": math.nan}, "`bias_variance`"),
    ],
)
def test_a_kernel_that_makes_no_sense_is_refused(change, says):
    with pytest.raises(InvalidInput, match=says):
        ConvKernel(**change)


def test_bad_images_and_metrics_are_refused():
    x = images(2, 1, 5, 5, 0)
    with pytest.raises(InvalidInput, match="NaN"):
        kernel_gram(torch.full_like(x, math.nan), kernel=ConvKernel(depth=1))
    with pytest.raises(InvalidInput, match="`depth` must be at most 2"):
        kernel_gram(x, kernel=ConvKernel(depth=3))
    with pytest.raises(InvalidInput, match="9 x 9"):
        kernel_gram(x, kernel=ConvKernel(depth=1), metric=torch.eye(4))
    with pytest.raises(InvalidInput, match="negative eigenvalue"):
        kernel_gram(x, kernel=ConvKernel(depth=1), metric=-torch.eye(9))
    with pytest.raises(InvalidInput, match="`z`"):
        kernel_gram(x, x[:, :, :4], kernel=ConvKernel(depth=1))
