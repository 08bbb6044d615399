import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight.maths.patches import PatchGeometry, extract_patches, mean_patches
from reference.patches import naive_patches


@st.composite
def images_and_geometry(draw):
    geometry = PatchGeometry(
        size=(draw(st.integers(1, 4)), draw(st.integers(1, 4))),
        stride=(draw(st.integers(1, 3)), draw(st.integers(1, 3))),
        padding=(draw(st.integers(0, 2)), draw(st.integers(0, 2))),
        dilation=(draw(st.integers(1, 2)), draw(st.integers(1, 2))),
    )
    low = [
        max(1, d * (k - 1) + 1 - 2 * p)
        for k, d, p in zip(geometry.size, geometry.dilation, geometry.padding, strict=True)
    ]
    shape = (draw(st.integers(1, 3)), draw(st.integers(1, 3)), *(draw(st.integers(v, v + 5)) for v in low))
    generator = torch.Generator().manual_seed(draw(st.integers(0, 1000)))
    return torch.randn(shape, generator=generator, dtype=torch.float64), geometry


def by_loops(images, geometry):
    return naive_patches(images.numpy(), geometry.size, geometry.stride, geometry.padding, geometry.dilation)


@given(images_and_geometry())
def test_patches_equal_the_definition(case):
    images, geometry = case
    assert np.array_equal(extract_patches(images, geometry).numpy(), by_loops(images, geometry))


@given(images_and_geometry())
def test_mean_patches_equal_the_definition(case):
    images, geometry = case
    expected = by_loops(images, geometry).mean(axis=1)
    np.testing.assert_allclose(mean_patches(images, geometry).numpy(), expected, rtol=0, atol=1e-13)


@given(images_and_geometry())
def test_the_number_of_positions_is_that_of_the_patches(case):
    images, geometry = case
    rows, columns = geometry.positions(*images.shape[2:])
    assert rows * columns == by_loops(images, geometry).shape[1]


def test_patches_times_flat_weights_are_the_convolution(float64):
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 5, (3, 2), stride=(2, 1), padding=(1, 2), dilation=(1, 2), bias=False)
    images = torch.randn(4, 3, 9, 8)
    patches = extract_patches(images, PatchGeometry.of(conv))
    product = (patches @ conv.weight.flatten(1).T).mT.reshape(conv(images).shape)
    torch.testing.assert_close(product, conv(images))


def test_same_padding_is_read_from_the_layer(float64):
    conv = nn.Conv2d(1, 1, 5, padding="same", dilation=2)
    geometry = PatchGeometry.of(conv)
    assert geometry.padding == (4, 4)
    assert geometry.positions(9, 7) == tuple(conv(torch.zeros(1, 1, 9, 7)).shape[2:])


def test_valid_padding_is_no_padding():
    assert PatchGeometry.of(nn.Conv2d(1, 1, 3, padding="valid")) == PatchGeometry.square(3)


def test_lopsided_same_padding_is_refused():
    with pytest.raises(InvalidInput, match="pads one side more"):
        PatchGeometry.of(nn.Conv2d(1, 1, 4, padding="same"))


def test_reflecting_padding_is_refused_but_harmless_where_there_is_none():
    with pytest.raises(InvalidInput, match="'reflect'"):
        PatchGeometry.of(nn.Conv2d(1, 1, 3, padding=1, padding_mode="reflect"))
    assert PatchGeometry.of(nn.Conv2d(1, 1, 3, padding_mode="reflect")) == PatchGeometry.square(3)


def test_a_patch_larger_than_the_image_is_refused_with_both_sizes():
    with pytest.raises(InvalidInput, match=r"at most the height of the images, 28; got size=57\. Pad"):
        extract_patches(torch.zeros(1, 1, 28, 28), PatchGeometry.square(57))
    with pytest.raises(InvalidInput, match="spans 5 with dilation=2"):
        mean_patches(torch.zeros(1, 1, 9, 4), PatchGeometry.square(3, dilation=2))


@pytest.mark.parametrize("field", ["size", "stride", "padding", "dilation"])
def test_impossible_geometry_is_refused_by_name(field):
    with pytest.raises(InvalidInput, match=f"`{field}`"):
        PatchGeometry(**{"size": (3, 3), field: (-1, 2)})


@pytest.mark.parametrize("function", [extract_patches, mean_patches])
@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_pixels_that_are_no_numbers_are_refused(function, value):
    images = torch.zeros(2, 1, 4, 4)
    images[1, 0, 2, 2] = value
    with pytest.raises(InvalidInput, match="NaN or infinite"):
        function(images, PatchGeometry.square(3))


def test_patches_of_bytes_are_those_of_numbers():
    images = torch.arange(32, dtype=torch.uint8).reshape(1, 2, 4, 4)
    geometry = PatchGeometry.square(2)
    assert torch.equal(extract_patches(images, geometry), extract_patches(images.float(), geometry))
    assert torch.equal(mean_patches(images, geometry), mean_patches(images.double(), geometry))


def test_mean_patches_of_many_images_do_not_depend_on_blocks(monkeypatch):
    images = torch.randn(7, 2, 6, 5, generator=torch.Generator().manual_seed(1))
    whole = mean_patches(images, PatchGeometry.square(3, padding=1))
    monkeypatch.setattr("firstlight.maths.patches._BLOCK_ELEMENTS", 130)
    torch.testing.assert_close(
        mean_patches(images, PatchGeometry.square(3, padding=1)), whole, rtol=0, atol=1e-15
    )


def test_the_order_is_that_of_unfold():
    images = torch.randn(2, 3, 6, 7, generator=torch.Generator().manual_seed(2))
    assert torch.equal(extract_patches(images, PatchGeometry.square(3)).mT.contiguous(), F.unfold(images, 3))
