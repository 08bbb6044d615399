import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.data.synthetic import (
    bars_in_noise,
    digit_blends,
    digits_in_noise,
    frequency_curve,
    frequency_data,
    frequency_points,
    partial_sums,
)


@given(st.integers(1, 20), st.integers(1, 6), st.integers(1, 9), st.integers(0, 99))
def test_exactly_one_row_is_the_bar_of_the_class(n, rows, columns, seed):
    data = bars_in_noise(n, sigma=0.7, seed=seed, rows=rows, columns=columns)
    bar = (2.0 * data.y - 1)[:, None, None] / math.sqrt(columns)
    is_bar = ((data.x[:, 0] - bar).abs() < 1e-6).all(-1)
    assert (is_bar.sum(1) == 1).all()
    assert data.shape == (1, rows, columns)


def test_a_bar_has_length_one_and_noise_the_variance_sigma_over_d():
    data = bars_in_noise(2000, sigma=2.0, seed=0)
    lengths = data.x.square().sum(-1)
    is_bar = (data.x[:, 0] == data.x[:, 0, :, :1]).all(-1)
    assert torch.allclose(lengths[:, 0][is_bar], torch.ones(2000))
    noise = data.x[:, 0][~is_bar]
    # 960 000 draws: relative standard error of the variance 0.14 %
    assert float(noise.var()) == pytest.approx(2.0 / 32, rel=0.01)
    assert data.shape == (1, 16, 32)


def test_bars_lie_in_every_row_and_both_signs_are_as_likely():
    data = bars_in_noise(3200, sigma=0.0, seed=1)
    rows = (data.x[:, 0, :, 0] != 0).sum(0)
    # chi-squared with 15 degrees of freedom at the 0.1 % level
    assert float(((rows - 200.0) ** 2 / 200).sum()) < 37.7
    assert abs(int(data.y.sum()) - 1600) < 3.3 * math.sqrt(800)


@pytest.mark.parametrize(
    "make", [lambda **o: bars_in_noise(9, sigma=1.0, **o), lambda **o: frequency_data(9, **o)]
)
def test_seed_and_split_decide_the_data(make):
    assert make(seed=1).fingerprint == make(seed=1).fingerprint
    assert make(seed=1).fingerprint != make(seed=2).fingerprint
    assert make(seed=1).fingerprint != make(seed=1, split="test").fingerprint
    assert make(seed=1).meta["split"] == "train"


@pytest.mark.parametrize(
    ("n", "sigma", "message"), [(0, 1.0, "n=0"), (3, -1.0, "sigma=-1.0"), (3, float("nan"), "sigma=nan")]
)
def test_impossible_bars_are_refused(n, sigma, message):
    with pytest.raises(InvalidInput, match=message):
        bars_in_noise(n, sigma=sigma, seed=0)


def some_digits(n=40):
    x = torch.rand(n, 1, 28, 28, generator=torch.Generator().manual_seed(0)) * 0.5 + 20
    return ImageData(x, torch.arange(n) % 4, tuple("0123"), {"name": "mnist", "split": "train"})


def test_digits_in_noise_hold_the_digits_and_their_labels():
    digits = some_digits()
    data = digits_in_noise(digits, 12, sigma=1.0, seed=0)
    assert data.shape == (1, 42, 42)
    assert data.counts.tolist() == [3, 3, 3, 3]
    cut = data.x[data.x > 10].reshape(12, 1, 28, 28)
    for image, label in zip(cut, data.y, strict=True):
        source = (digits.x == image).all((1, 2, 3)).nonzero().item()
        assert digits.y[source] == label
    assert data.meta["name"] == "digits_in_noise"
    assert data.meta["source"] == "mnist"
    assert data.fingerprint == digits_in_noise(digits, 12, sigma=1.0, seed=0).fingerprint


def test_more_digits_than_there_are_is_refused():
    with pytest.raises(InvalidInput, match="n=41"):
        digits_in_noise(some_digits(), 41, sigma=1.0, seed=0)


@given(st.floats(-2, 3))
def test_blends_are_linear(weight):
    a, b = some_digits(2).x
    blend = digit_blends(a, b, torch.tensor([weight]))[0]
    torch.testing.assert_close(blend, a + weight * (b - a), rtol=1e-5, atol=1e-5)


def test_blends_refuse_what_is_no_number():
    with pytest.raises(InvalidInput, match="finite"):
        digit_blends(torch.zeros(1, 2, 2), torch.full((1, 2, 2), float("nan")), torch.ones(1))


def naive_curve(z):
    phases = [0, 3.46, 5.08, 0.45, 2.10, 1.4, 5.36, 0.85, 5.9, 5.16]
    return [sum(math.sin(2 * math.pi * i * z + phases[i]) for i in range(k + 1)) for k in range(10)]


@given(st.floats(-1, 1))
def test_partial_sums_equal_the_definition(z):
    points = torch.tensor([z], dtype=torch.float64)
    assert partial_sums(points)[0].tolist() == pytest.approx(naive_curve(z), abs=1e-12)
    assert float(frequency_curve(points)) == pytest.approx(naive_curve(z)[-1], abs=1e-12)


def test_the_first_partial_sum_is_identically_zero():
    assert torch.equal(partial_sums(torch.linspace(-1, 1, 50))[:, 0], torch.zeros(50, dtype=torch.float64))


def test_labels_say_below_the_curve_and_points_fill_the_rectangle():
    points, labels = frequency_points(10_000, seed=0)
    for (z, v), label in list(zip(points.tolist(), labels.tolist(), strict=True))[:500]:
        assert label == int(v <= naive_curve(z)[-1])
    assert points.abs().amax(0).tolist() == pytest.approx([1.0, 2 * math.pi], rel=1e-3)
    # uniform: standard error of the mean of z is 1/sqrt(3 * 10 000)
    assert abs(float(points[:, 0].mean())) < 4 / math.sqrt(30_000)
    assert 0.3 < float(labels.double().mean()) < 0.7


def test_frequency_images_hold_the_points():
    points, labels = frequency_points(20, seed=4)
    data = frequency_data(20, seed=4)
    assert data.shape == (2, 1, 1)
    assert torch.equal(data.x.flatten(1), points)
    assert torch.equal(data.y, labels)
    assert data.classes[1] == "below"


def test_no_points_are_refused():
    with pytest.raises(InvalidInput, match="n=0"):
        frequency_points(0, seed=0)
