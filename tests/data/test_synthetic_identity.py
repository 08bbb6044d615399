import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.data.interventions import MNIST_NORMALISATION
from firstlight.data.synthetic import PATTERNS, correlated_images, pattern, patterns


@pytest.mark.parametrize("name", PATTERNS)
@given(st.integers(1, 33), st.integers(1, 33), st.integers(1, 3))
def test_every_pattern_is_drawn_at_any_resolution(name, h, w, channels):
    image = pattern(name, h, w, channels=channels)
    assert image.shape == (channels, h, w)
    assert image.dtype == torch.float32
    assert 0 <= float(image.min()) <= float(image.max()) <= 1
    assert all(torch.equal(image[0], image[c]) for c in range(channels))


def test_all_kinds_are_there():
    kinds = ["white", "horizontal_stripes", "vertical_stripes", "diagonal_stripes", "checkerboard", "disc",
             "ring", "square", "gradient", "pixel", "cross", "noise"]  # fmt: skip
    for kind in kinds:
        assert any(name.startswith(kind) for name in PATTERNS), kind


def test_patterns_differ_from_each_other():
    flat = patterns(28, 28).x.flatten(1)
    distances = torch.cdist(flat, flat)
    distances.fill_diagonal_(1.0)
    assert float(distances.min()) > 0.5


def test_patterns_carry_their_names_and_pass_the_normalisation():
    data = patterns(14, 14)
    assert data.classes == tuple(PATTERNS)
    black = MNIST_NORMALISATION.transform(data).x[data.classes.index("black")]
    assert torch.allclose(black, torch.tensor(-0.4242), atol=1e-4)


@pytest.mark.parametrize("count", [2, 4, 7, 14])
def test_bands_have_equal_width_and_the_named_direction(count):
    rows = pattern(f"horizontal_stripes_{count}", 28, 28)[0]
    expected = torch.tensor([(i * count // 28 + 1) % 2 for i in range(28)]).float()
    assert torch.equal(rows, expected[:, None].expand(28, 28))
    columns = pattern(f"vertical_stripes_{count}", 28, 28)[0]
    assert torch.equal(columns, rows.T)
    board = pattern(f"checkerboard_{count}", 28, 28)[0]
    assert torch.equal(board, (rows == columns).float())
    diagonal = pattern(f"diagonal_stripes_{count}", 28, 28)[0]
    assert torch.equal(diagonal[1:, :-1], diagonal[:-1, 1:])
    assert 0.4 < float(diagonal.mean()) < 0.6


def test_round_patterns_are_centred_and_symmetric():
    for name in ("disc", "ring", "square", "cross"):
        image = pattern(name, 28, 28)[0]
        assert torch.equal(image, image.T)
        assert torch.equal(image, image.flip(0))
        assert 0 < float(image.mean()) < 1
    assert float(pattern("disc", 28, 28)[0, 14, 14]) == 1
    assert float(pattern("ring", 28, 28)[0, 14, 14]) == 0
    disc_area = math.pi * 0.3**2
    assert float(pattern("disc", 400, 400).mean()) == pytest.approx(disc_area, rel=0.01)


def test_one_pixel_is_bright_and_gradients_rise():
    assert float(pattern("pixel", 9, 8).sum()) == 1
    assert (pattern("gradient_down", 9, 8)[0].diff(dim=0) > 0).all()
    assert (pattern("gradient_right", 9, 8)[0].diff(dim=1) > 0).all()


def test_only_noise_depends_on_the_seed():
    changed = [n for n in PATTERNS if not torch.equal(pattern(n, 8, 8, seed=0), pattern(n, 8, 8, seed=1))]
    assert changed == ["noise"]
    assert torch.equal(pattern("noise", 8, 8, seed=3), pattern("noise", 8, 8, seed=3))


def test_unknown_patterns_and_empty_canvases_are_refused():
    with pytest.raises(InvalidInput, match="Did you mean 'ring'"):
        pattern("rings", 8, 8)
    with pytest.raises(InvalidInput, match="w=0"):
        pattern("ring", 8, 0)


@given(
    st.integers(1, 3), st.integers(1, 6), st.integers(2, 6), st.integers(1, 4), st.integers(0, 999),
    st.lists(st.floats(-1, 1), min_size=1, max_size=5), st.sampled_from([1e-6, 1.0, 1e6]),
)  # fmt: skip
def test_cosine_and_norm_are_what_was_asked(c, h, w, draws, seed, rhos, scale):
    generator = torch.Generator().manual_seed(seed)
    image = torch.randn(c, h, w, generator=generator, dtype=torch.float64) * scale
    grid = torch.tensor(rhos, dtype=torch.float64)
    found = correlated_images(image, grid, draws=draws, seed=seed)
    assert found.shape == (len(rhos), draws, c, h, w)
    flat, target = found.flatten(2), image.flatten()
    norms = flat.norm(dim=2)
    torch.testing.assert_close(norms / target.norm(), torch.ones_like(norms), rtol=0, atol=1e-12)
    cosines = flat @ target / (norms * target.norm())
    torch.testing.assert_close(cosines, grid[:, None].expand_as(cosines), rtol=0, atol=1e-12)


def test_correlation_one_returns_the_image_and_matches_the_papers_formula():
    image = torch.rand(1, 5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    at_zero, at_rho, at_one = correlated_images(image, torch.tensor([0.0, 0.6, 1.0]), seed=1)[:, 0]
    assert torch.equal(at_one, image)
    # take the image at rho = 0 plus any multiple of the training image as g: the paper's alpha undoes it
    beta, rho = 0.37, float(torch.tensor(0.6))
    g = 2 * at_zero + beta * image
    alpha = (2 * at_zero).norm() * rho / (image.norm() * math.sqrt(1 - rho**2)) - beta
    theirs = g + alpha * image
    torch.testing.assert_close(theirs * image.norm() / theirs.norm(), at_rho, rtol=0, atol=1e-12)


def test_draws_differ_and_follow_the_seed():
    image = torch.ones(1, 4, 4)
    found = correlated_images(image, torch.tensor([0.5]), draws=2, seed=0)
    assert not torch.equal(found[0, 0], found[0, 1])
    assert torch.equal(found, correlated_images(image, torch.tensor([0.5]), draws=2, seed=0))
    assert not torch.equal(found, correlated_images(image, torch.tensor([0.5]), draws=2, seed=1))


@pytest.mark.parametrize(
    ("image", "rho", "draws", "message"),
    [
        (torch.zeros(1, 2, 2), 0.5, 1, "not zero"),
        (torch.full((1, 2, 2), float("nan")), 0.5, 1, "finite"),
        (torch.ones(1, 2, 2), 1.5, 1, r"\[-1, 1\]"),
        (torch.ones(1, 2, 2), float("nan"), 1, r"\[-1, 1\]"),
        (torch.ones(1, 1, 1), 0.5, 1, "at least 2 pixels"),
        (torch.ones(1, 2, 2), 0.5, 0, "draws=0"),
    ],
)
def test_impossible_angles_are_refused(image, rho, draws, message):
    with pytest.raises(InvalidInput, match=message):
        correlated_images(image, torch.tensor([rho]), draws=draws, seed=0)
