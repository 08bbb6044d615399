import math
from functools import partial

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.data.synthetic import digit_blends
from reproduce.studies.feature_ansatz.noisy_images import bars_in_noise, digits_in_noise


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


def test_seed_and_split_decide_the_data():
    make = partial(bars_in_noise, 9, sigma=1.0)
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
