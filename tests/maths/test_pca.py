import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight._internal.store import decode, encode
from firstlight.maths import patches as moments_module
from firstlight.maths.patches import PatchGeometry
from firstlight.maths.pca import image_pca, patch_pca
from reference.patches import naive_covariance, naive_patches


def draw_images(*shape, seed=0, kind="noise"):
    generator = torch.Generator().manual_seed(seed)
    noise = torch.randn(shape, generator=generator, dtype=torch.float64)
    return {"noise": noise, "constant": torch.full_like(noise, 0.3), "offset": noise + 1000}[kind]


@st.composite
def cases(draw, *, dense):
    step = st.just(1) if dense else st.integers(1, 3)
    geometry = PatchGeometry(
        size=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        stride=(draw(step), draw(step)),
        padding=(draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        dilation=(draw(step), draw(step)),
    )
    low = [
        max(1, d * (k - 1) + 1 - 2 * p)
        for k, d, p in zip(geometry.size, geometry.dilation, geometry.padding, strict=True)
    ]
    sides = [draw(st.integers(v, v + 6)) for v in low]
    kind = draw(st.sampled_from(["noise", "constant"]))
    images = draw_images(
        draw(st.integers(1, 4)), draw(st.integers(1, 3)), *sides, seed=draw(st.integers(0, 99)), kind=kind
    )
    return images, geometry, draw(st.sampled_from([None, 1, 3]))


def assert_is_pca_of(pca, vectors):
    mean, covariance = naive_covariance(vectors)
    rebuilt = (pca.basis * pca.variances) @ pca.basis.T
    np.testing.assert_allclose(rebuilt.numpy(), covariance, rtol=0, atol=1e-10)
    np.testing.assert_allclose(pca.mean.numpy(), mean, rtol=0, atol=1e-10)
    gram = pca.basis.T @ pca.basis
    np.testing.assert_allclose(gram.numpy(), np.eye(len(gram)), rtol=0, atol=1e-10)
    assert (pca.variances.diff() <= 0).all()
    assert (pca.variances >= 0).all()


@given(cases(dense=True), st.sampled_from([1, 3, 48]))
def test_dense_patch_pca_equals_the_definition(case, tile):
    images, geometry, block = case
    before, moments_module.TILE_NUMBERS = moments_module.TILE_NUMBERS, tile
    try:
        pca = patch_pca(images, geometry, block=block)
    finally:
        moments_module.TILE_NUMBERS = before
    patches = naive_patches(images.numpy(), geometry.size, (1, 1), geometry.padding, (1, 1))
    assert_is_pca_of(pca, patches.reshape(-1, patches.shape[2]))
    assert pca.n_samples == len(images)
    assert pca.n_vectors == patches.shape[0] * patches.shape[1]


@given(cases(dense=False))
def test_strided_and_dilated_patch_pca_equals_the_definition(case):
    images, geometry, block = case
    pca = patch_pca(images, geometry, block=block)
    patches = naive_patches(
        images.numpy(), geometry.size, geometry.stride, geometry.padding, geometry.dilation
    )
    assert_is_pca_of(pca, patches.reshape(-1, patches.shape[2]))


@pytest.mark.parametrize("sides", [(16, 40), (40, 16)])
def test_many_tiles_and_long_kernels_equal_the_definition(sides):
    images = draw_images(2, 3, *sides)
    patches = naive_patches(images.numpy(), (7, 5), (1, 1), (1, 2), (1, 1))
    pca = patch_pca(images, PatchGeometry(size=(7, 5), padding=(1, 2)))
    assert_is_pca_of(pca, patches.reshape(-1, patches.shape[2]))


def test_a_stream_of_blocks_gives_what_the_whole_gives():
    images = draw_images(11, 2, 8, 7)
    whole = patch_pca(images, PatchGeometry.square(3))
    stream = patch_pca((part for part in images.split(4)), PatchGeometry.square(3), block=3)
    torch.testing.assert_close(stream.variances, whole.variances, rtol=0, atol=1e-13)
    torch.testing.assert_close(stream.basis, whole.basis, rtol=0, atol=1e-9)
    assert stream.n_samples == 11


def test_a_large_offset_costs_no_digits():
    images = draw_images(3, 1, 8, 8)
    shifted = patch_pca(images + 1e6, PatchGeometry.square(3))
    plain = patch_pca(images, PatchGeometry.square(3))
    torch.testing.assert_close(shifted.variances, plain.variances, rtol=1e-8, atol=0)


def test_patch_pca_does_not_change_its_input():
    images = draw_images(3, 1, 5, 5)
    copy = images.clone()
    patch_pca(images, PatchGeometry.square(3))
    image_pca(images)
    assert torch.equal(images, copy)


def test_bytes_and_floats_give_the_same_components():
    images = (draw_images(4, 3, 6, 6).sigmoid() * 255).to(torch.uint8)
    geometry = PatchGeometry.square(3)
    assert torch.equal(patch_pca(images, geometry).basis, patch_pca(images.float(), geometry).basis)


@given(
    st.integers(1, 9), st.integers(1, 2), st.integers(1, 4), st.integers(1, 3),
    st.sampled_from([None, 1, 2]), st.sampled_from(["noise", "constant"]),
)  # fmt: skip
def test_image_pca_equals_the_definition(n, c, h, w, block, kind):
    images = draw_images(n, c, h, w, seed=n, kind=kind)
    pca = image_pca(images, block=block)
    assert_is_pca_of(pca, images.flatten(1).numpy())
    assert pca.n_components == min(n, c * h * w)


@pytest.mark.parametrize("n", [5, 40])
def test_a_stream_of_images_gives_what_the_whole_gives(n):
    images = draw_images(n, 1, 3, 4)
    whole, stream = image_pca(images), image_pca(iter(images.split(3)))
    torch.testing.assert_close(stream.variances, whole.variances, rtol=0, atol=1e-12)
    k = whole.rank()
    torch.testing.assert_close(stream.basis[:, :k], whole.basis[:, :k], rtol=0, atol=1e-9)
    assert stream.n_samples == n


def test_image_pca_keeps_its_digits_under_an_offset_on_both_sides():
    for n in (6, 40):
        images = draw_images(n, 1, 3, 4)
        plain, shifted = image_pca(images), image_pca(images + 1e6)
        torch.testing.assert_close(shifted.variances, plain.variances, rtol=1e-7, atol=1e-9)


def test_the_gram_side_spans_the_same_subspace():
    images = draw_images(8, 1, 4, 5) * torch.logspace(0, -5, 20).double().reshape(1, 4, 5)
    few = image_pca(images)
    many = image_pca(torch.cat([images] * 3))  # the same distribution, n > d
    k = few.rank()
    assert k == many.rank() == 7
    projector = few.basis[:, :k] @ few.basis[:, :k].T
    torch.testing.assert_close(projector @ many.basis[:, :k], many.basis[:, :k], rtol=0, atol=1e-9)


def test_project_and_reconstruct_undo_each_other():
    images = draw_images(30, 1, 3, 4)
    pca = image_pca(images)
    rows = images.flatten(1)
    torch.testing.assert_close(pca.reconstruct(pca.project(rows)), rows, rtol=0, atol=1e-12)
    coordinates = pca.project(rows)
    torch.testing.assert_close(coordinates.square().mean(0), pca.variances, rtol=0, atol=1e-12)


def test_truncation_keeps_the_leading_components():
    pca = image_pca(draw_images(30, 1, 3, 4))
    assert torch.equal(pca.truncated(3).basis, pca.basis[:, :3])
    with pytest.raises(InvalidInput, match=r"1 \.\. 12.*n_components=13"):
        pca.truncated(13)


def test_the_leading_entry_of_every_component_is_positive():
    pca = patch_pca(draw_images(5, 3, 8, 8), PatchGeometry.square(3))
    leading = pca.basis.abs().argmax(0)
    assert (pca.basis[leading, torch.arange(27)] > 0).all()


def test_explained_shares_add_up_to_one_and_vanish_for_constant_images():
    assert abs(float(image_pca(draw_images(30, 1, 3, 4)).explained.sum()) - 1) < 1e-12
    assert float(image_pca(torch.ones(3, 1, 2, 2)).explained.sum()) == 0


def test_a_pca_is_stored_and_read_back():
    pca = image_pca(draw_images(4, 1, 2, 2))
    back = decode(*encode(pca))
    assert torch.equal(back.basis, pca.basis)
    assert back.n_samples == pca.n_samples


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("n", [3, 30])
def test_pixels_that_are_no_numbers_are_refused(value, n):
    images = draw_images(n, 1, 4, 4)
    images[1, 0, 1, 1] = value
    with pytest.raises(InvalidInput, match="NaN or infinite"):
        patch_pca(images, PatchGeometry.square(3))
    with pytest.raises(InvalidInput, match="NaN or infinite"):
        patch_pca(images, PatchGeometry.square(2, stride=2))
    with pytest.raises(InvalidInput, match="NaN or infinite"):
        image_pca(images)


def test_empty_streams_and_mixed_sizes_are_refused():
    with pytest.raises(InvalidInput, match="empty iterable"):
        patch_pca(iter([]), PatchGeometry.square(3))
    with pytest.raises(InvalidInput, match="empty iterable"):
        image_pca([])
    with pytest.raises(InvalidInput, match=r"one shape, \(1, 4, 4\); got \(1, 5, 4\)"):
        patch_pca([torch.zeros(1, 1, 4, 4), torch.zeros(1, 1, 5, 4)], PatchGeometry.square(3))
    with pytest.raises(InvalidInput, match="block=0"):
        image_pca(torch.zeros(1, 1, 4, 4), block=0)


# VmHWM rather than getrusage: the latter inherits the peak of the process that started this one
PEAK = textwrap.dedent("""
    import sys, torch
    from pathlib import Path
    from firstlight.maths.patches import PatchGeometry
    from firstlight.maths.pca import image_pca, patch_pca
    torch.set_num_threads(1)
    side, n = int(sys.argv[1]), int(sys.argv[2])
    blocks = (torch.rand(500, 3, side, side) for _ in range(n // 500))
    patch_pca(blocks, PatchGeometry.square(3)) if side == 32 else image_pca(blocks)
    print(Path("/proc/self/status").read_text().split("VmHWM:")[1].split()[0])
""")


def peak_kilobytes(side, n_images):
    command = [sys.executable, "-c", PEAK, str(side), str(n_images)]
    return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the system does not tell peak memory")
@pytest.mark.parametrize("side", [32, 12])  # patches of the larger images, the smaller ones whole
def test_memory_does_not_grow_with_the_number_of_images(side):
    # 18 000 more images are 221 MB or 31 MB of float32, twice that in float64
    assert peak_kilobytes(side, 20_000) - peak_kilobytes(side, 2_000) < 30_000
