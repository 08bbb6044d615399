"""Convolution by Fourier transform is the convolution."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight import models


@given(
    n=st.integers(1, 2),
    c=st.integers(1, 3),
    o=st.integers(1, 3),
    h=st.integers(1, 9),
    w=st.integers(1, 9),
    k=st.sampled_from([1, 3, 7, 19]),
    bias=st.booleans(),
)
@settings(max_examples=30)
def test_outputs_and_gradients_equal_the_direct_convolution(n, c, o, h, w, k, bias):
    torch.manual_seed(n + c + o + h + w + k)
    direct = nn.Sequential(nn.Conv2d(c, o, k, padding=k // 2, bias=bias)).double()
    fourier = nn.Sequential(nn.Conv2d(c, o, k, padding=k // 2, bias=bias)).double()
    fourier.load_state_dict(direct.state_dict())
    models.image_to_image.with_large_filters_by_fourier(fourier, at_least=1)
    assert type(fourier[0]) is models.image_to_image.FourierConv2d
    x = torch.randn(n, c, h, w, dtype=torch.float64)
    outputs = [model(x) for model in (direct, fourier)]
    assert torch.allclose(*outputs, atol=1e-11)
    for output in outputs:
        output.square().sum().backward()
    for a, b in zip(direct.parameters(), fourier.parameters(), strict=True):
        assert torch.allclose(a.grad, b.grad, atol=1e-9)


def test_names_stay_and_small_or_odd_convolutions_are_left_alone():
    model = models.build("identity_cnn", shape=(1, 6, 6), depth=3, channels=2, kernel=25)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    models.image_to_image.with_large_filters_by_fourier(model)
    assert list(model.state_dict()) == list(before)
    assert len(model.layers) == 3
    others = nn.Sequential(
        nn.Conv2d(1, 1, 5, padding=2),
        nn.Conv2d(1, 1, 27),
        nn.Conv2d(1, 1, 27, padding=13, stride=2),
        nn.Conv2d(2, 2, 27, padding=13, groups=2),
        nn.Conv2d(1, 1, 27, padding=13, padding_mode="circular"),
    )
    models.image_to_image.with_large_filters_by_fourier(others)
    assert all(type(m) is nn.Conv2d for m in others)
