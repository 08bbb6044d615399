"""PCBias, section 2: deep linear networks are stepped and trained for real and compared with theory."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight import models
from firstlight.training import Recipe, train
from reproduce.studies.learning_order import deep_linear as dl

WIDTHS = (7, 11, 13, 12, 3)


def problem(q=7, k=3, n=20, seed=0):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, q, generator=generator, dtype=torch.float64)
    y = torch.randn(n, k, generator=generator, dtype=torch.float64)
    return x, y


def layers_of(widths, seed=1, draws=(), variances=None):
    generator = torch.Generator().manual_seed(seed)
    return dl.drawn_layers(
        widths, variances or dl.definition3_variances(widths), generator=generator, draws=draws
    )


def test_remainder_of_the_first_order_dynamics_falls_as_the_square_of_the_rate():
    x, y = problem()
    sxx, syx = x.T @ x, y.T @ x
    layers = layers_of(WIDTHS)
    ratios = []
    for rate in (1e-3, 1e-4, 1e-5):
        after = dl.compact(dl.gradient_step(layers, sxx, syx, rate=rate))
        predicted = dl.compact(layers) + dl.first_order_change(layers, sxx, syx, rate=rate)
        ratios.append(float((after - predicted).norm()) / rate**2)
    # converges to a constant: the last two differ by what is third order
    assert ratios[2] > 0
    assert abs(ratios[1] / ratios[2] - 1) < 0.002
    assert abs(ratios[0] / ratios[2] - 1) < 0.02


def test_one_layer_has_no_remainder():
    x, y = problem()
    sxx, syx = x.T @ x, y.T @ x
    layers = layers_of((7, 3))
    after = dl.compact(dl.gradient_step(layers, sxx, syx, rate=0.01))
    torch.testing.assert_close(after - layers[0], dl.first_order_change(layers, sxx, syx, rate=0.01))


@given(
    widths=st.lists(st.integers(1, 6), min_size=2, max_size=5),
    n=st.integers(1, 6),
    seed=st.integers(0, 1000),
)
def test_layer_gradients_equal_autograd(widths, n, seed):
    x, y = problem(widths[0], widths[-1], n, seed)
    layers = [w.requires_grad_() for w in layers_of(widths, seed)]
    out = x
    for layer in layers:
        out = out @ layer.T
    (0.5 * (out - y).square().sum()).backward()
    found = dl.layer_gradients([w.detach() for w in layers], x.T @ x, y.T @ x)
    for layer, gradient in zip(layers, found, strict=True):
        torch.testing.assert_close(gradient, layer.grad, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("n", [4, 20], ids=["fewer samples than inputs", "more samples than inputs"])
def test_one_trained_layer_equals_the_closed_form_at_every_time(n, float64):
    x, y = problem(n=n)
    moments = dl.principal_moments(x, y)
    # "mse" averages over samples and outputs; the theory's loss is half the sum
    rate, outputs = 0.5 / float(moments.values[0]), y.shape[1]
    for steps in (1, 10, 50):
        model = models.build("linear_fcn", classes=3, shape=(7, 1, 1), depth=1, seed=3)
        start = moments.rotated(model.fc1.weight.detach())
        recipe = Recipe(lr=rate * n * outputs / 2, steps=steps, batch_size=None, loss="mse")
        train(model, x[:, :, None, None], y, recipe, show=False)
        found = moments.rotated(model.fc1.weight.detach())
        expected = dl.columns_at(start, moments, rate=rate, steps=steps)
        torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_the_closed_form_of_a_deep_network_gets_better_with_width():
    x, y = problem(q=8, n=200)
    moments = dl.principal_moments(x, y / 10)
    sxx, syx = x.T @ x, (y / 10).T @ x
    depth, rate, steps = 3, 0.02 / 3 / float(moments.values[0]), 60
    errors = []
    for width in (50, 800):
        draws = []
        for seed in range(4):
            layers = layers_of((8, width, width, 3), seed)
            start = moments.rotated(dl.compact(layers))
            for _ in range(steps):
                layers = dl.gradient_step(layers, sxx, syx, rate=rate)
            found = moments.rotated(dl.compact(layers))
            expected = dl.columns_at(start, moments, rate=rate, steps=steps, depth=depth)
            draws.append(float((found - expected).norm() / expected.norm()))
        errors.append(sum(draws) / len(draws))
    # the error is of order 1/sqrt(width): a factor 4 here, of which we ask half
    assert errors[1] < errors[0] / 2


def test_depth_multiplies_the_initial_rate():
    x, y = problem(q=6, n=100)
    moments = dl.principal_moments(x, y * 0)
    sxx, syx = x.T @ x, 0 * (y.T @ x)
    rate = 1e-3 / float(moments.values[0])
    decays = {}
    for depth in (1, 2, 4):
        layers = layers_of((6, *[1500] * (depth - 1), 3))
        before = moments.rotated(dl.compact(layers))[:, 0].norm()
        after = moments.rotated(dl.compact(dl.gradient_step(layers, sxx, syx, rate=rate)))[:, 0].norm()
        decays[depth] = 1 - float(after / before)
    # entrywise fluctuations of A and B are sqrt(depth/width) = 5 %
    assert decays[2] / decays[1] == pytest.approx(2, rel=0.15)
    assert decays[4] / decays[1] == pytest.approx(4, rel=0.15)


def test_means_of_scale_matrices_and_variance_of_the_product_equal_their_expectations():
    widths, variances = (5, 6, 7, 4, 3), [0.3, 0.2, 0.5, 0.4]
    draws = 20_000
    layers = layers_of(widths, draws=(draws,), variances=variances)
    expected = dl.expected_scales(widths, variances)
    scales = dl.scale_matrices(layers)
    for found, value in [
        *zip(scales.left[:-1], expected.left, strict=False),
        *zip(scales.right[1:], expected.right[1:], strict=True),
    ]:
        error = found.std(0) / math.sqrt(draws)
        unit = value * torch.eye(found.shape[-1], dtype=torch.float64)
        # 4.5 standard errors: one entry in 150 000 exceeds them by chance
        assert ((found.mean(0) - unit).abs() < 4.5 * error).all()
    product = dl.compact(layers)
    assert float(product.var()) == pytest.approx(expected.product_variance, rel=0.02)
    assert torch.equal(scales.left[-1][0], torch.eye(3, dtype=torch.float64))
    assert torch.equal(scales.right[0][0], torch.eye(5, dtype=torch.float64))


@pytest.mark.parametrize("side", ["left", "right"])
def test_scale_matrices_concentrate_as_one_over_width(side):
    widths = (64, 256, 1024)
    variance = []
    for width in widths:
        layers = layers_of((16, width, width, 16), seed=width, draws=(8,))
        matrices = getattr(dl.scale_matrices(layers), side)
        chosen = matrices[0] if side == "left" else matrices[2]
        off = chosen - torch.diag_embed(chosen.diagonal(dim1=-2, dim2=-1))
        variance.append(float(off.square().sum() / (8 * 16 * 15)))
    x = torch.tensor(widths).double().log()
    y = torch.tensor(variance).double().log()
    exponent = float(((x - x.mean()) * (y - y.mean())).sum() / (x - x.mean()).square().sum())
    # 8 x 240 entries give each variance to about 5 %, the exponent over a factor 16 to .03
    assert exponent == pytest.approx(-1, abs=0.12)


@given(st.lists(st.integers(20, 400), min_size=1, max_size=1), st.integers(2, 5))
def test_definition_3_has_unit_scale_for_equal_hidden_widths(width, depth):
    widths = [3, *width * (depth - 1), 2]
    variances = dl.definition3_variances(widths)
    for layer in range(depth - 1):
        assert widths[layer + 1] * variances[layer] == pytest.approx(1, abs=1e-12)
        assert widths[layer + 1] * variances[layer + 1] == pytest.approx(1, abs=1e-12)


def test_definition_3_is_what_the_initialiser_draws():
    model = models.build("linear_fcn", classes=4, shape=(1, 8, 8), depth=3, units=300, initialiser="pcbias")
    for layer, variance in zip(model.layers, dl.definition3_variances([64, 300, 300, 4]), strict=True):
        draws = layer.weight.numel()
        assert float(layer.weight.detach().var()) == pytest.approx(variance, rel=5 * math.sqrt(2 / draws))


def test_first_step_drifts_the_scale_matrices_as_corrected():
    q, k, depth, width, rate = 3, 2, 4, 100, 1e-5
    x, y = problem(q=q, k=k, n=30)
    sxx, syx = x.T @ x, y.T @ x
    widths = (q, *[width] * (depth - 1), k)
    layers = layers_of(widths, draws=(1500,))
    before = dl.scale_matrices(layers)
    after = dl.scale_matrices(dl.gradient_step(layers, sxx, syx, rate=rate))
    expected = dl.expected_drift(widths, sxx, rate=rate)
    for index in range(depth - 1):
        found = (before.left[index] - after.left[index]).mean(0).trace() / expected.left[index].trace()
        assert float(found) == pytest.approx(1, abs=0.1)  # leading order in 1/width: corrections of a few %
        found = (before.right[index + 1] - after.right[index + 1]).mean(0).trace()
        assert float(found / expected.right[index + 1].trace()) == pytest.approx(1, abs=0.1)


def test_columns_without_variance_keep_their_start():
    x, y = problem(q=6, n=3)
    moments = dl.principal_moments(x, y)
    assert int((moments.values == 0).sum()) == 3
    start = torch.randn(3, 6, generator=torch.Generator().manual_seed(5), dtype=torch.float64)
    end = dl.columns_at(start, moments, rate=1 / float(moments.values[0]), steps=1e6)
    assert torch.equal(end[:, 3:], start[:, 3:])
    torch.testing.assert_close(end[:, :3], moments.optimum[:, :3], rtol=0, atol=1e-9)


def test_identity_distance_of_the_identity_is_zero_and_spectra_are_told():
    unit = dl.identity_distance(3 * torch.eye(4))
    assert (unit.diagonal, unit.off_diagonal, unit.smallest, unit.largest) == (0, 0, 3, 3)
    layers = layers_of((300, 100, 2))
    wide = dl.identity_distance(dl.scale_matrices(layers).right[1])
    # as many directions as the width are alive: entries are small, the operator is far from the identity
    assert wide.off_diagonal < 0.1
    assert wide.smallest < 1e-9
    assert wide.largest > 5
