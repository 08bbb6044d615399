"""Drawn features: their limit is the exact kernel, their gradients are those of autograd, and they learn."""

import pytest
import torch
import torch.nn.functional as F

from firstlight._internal.errors import InvalidInput
from firstlight.kernels import (
    ConvKernel,
    RandomFeatures,
    kernel_gram,
    learn_features,
    random_filters,
)
from firstlight.kernels.random_features import Moments, feature_agop, inverse_covariance
from firstlight.maths.patches import PatchGeometry
from reference.convolutional_kernels import patches
from reproduce.studies.feature_ansatz.noisy_images import bars_in_noise


def images(n: int, c: int, side: int, seed: int) -> torch.Tensor:
    return torch.randn(n, c, side, side, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def metric_of(d: int) -> torch.Tensor:
    factor = torch.randn(d, d, generator=torch.Generator().manual_seed(9), dtype=torch.float64)
    return factor @ factor.T / d


@pytest.mark.parametrize(("readout", "regions"), [("gap", 1), ("flatten", None)])
def test_products_of_features_converge_to_the_exact_kernel(readout, regions):
    x, metric = images(5, 2, 6, 0), metric_of(18)
    exact = kernel_gram(
        x, kernel=ConvKernel(depth=1, kind="nngp", readout=readout), metric=metric, dtype=torch.float64
    )

    def error(n_filters: int, seed: int) -> float:
        filters = random_filters(metric, n_filters, seed=seed, shape=(2, 3, 3))
        drawn = RandomFeatures(
            filters=filters, shift=torch.zeros(n_filters, dtype=torch.float64), regions=regions
        )
        positions = 1 if regions else 16
        found = drawn(x) @ drawn(x).T / (n_filters * 2 * positions)
        return float((found - exact).norm() / exact.norm())

    few, many = (sum(error(n, seed) ** 2 for seed in range(8)) ** 0.5 for n in (50, 5000))
    # the error of a mean of n draws falls as 1 / √n: 10 times here; 8 draws know either to about a quarter
    assert 5 < few / many < 20
    assert many / 8**0.5 < 0.03


@pytest.mark.parametrize("padding", [0, 1])
def test_gradient_outer_products_equal_automatic_differentiation(padding):
    x, filters = images(3, 2, 5, 1), images(4, 2, 3, 2)
    shift, threshold = torch.tensor([0.1, -0.2, 0.0, 0.3], dtype=torch.float64), 0.4
    drawn = RandomFeatures(filters=filters, shift=shift, threshold=threshold, regions=2, padding=padding)
    beta = images(1, 3, 6, 3).reshape(-1)[: 2 * 4 * 4 * 3].reshape(32, 3)
    expected = torch.zeros(18, 18, dtype=torch.float64)
    for leaf in patches(x, 3, 1, padding):
        # the definition, patch by patch: responses, both signs, means over regions
        leaf = leaf.clone().requires_grad_()
        responses = (leaf @ filters.flatten(1).T - shift).permute(2, 0, 1)
        signs = [(sign * responses - threshold).clamp(min=0) for sign in (1, -1)]
        outputs = torch.cat([F.adaptive_avg_pool2d(sign, 2).flatten() for sign in signs]) @ beta
        for output in outputs:
            (gradient,) = torch.autograd.grad(output, leaf, retain_graph=True)
            expected += gradient.reshape(-1, 18).T @ gradient.reshape(-1, 18)
    assert torch.allclose(feature_agop(drawn, beta, x), expected / 3, atol=1e-12)


def test_moments_give_the_ridge_regression_on_standardised_features_and_add_up():
    rows, y = images(40, 1, 3, 4).flatten(1), images(40, 1, 2, 5).flatten(1)[:, :2]
    rows[:, 3] = 7.0  # says nothing
    whole = Moments.of(rows[:25], y[:25]) + Moments.of(rows[25:], y[25:])
    (readout,) = whole.solved([0.1])
    used = [i for i in range(9) if i != 3]
    scaled = (rows[:, used] - rows[:, used].mean(0)) / rows[:, used].std(0, unbiased=False)
    ridge = 0.1 * 40 * torch.eye(8, dtype=torch.float64)
    beta = torch.linalg.solve(scaled.T @ scaled + ridge, scaled.T @ (y - y.mean(0)))
    assert torch.allclose(readout(rows), scaled @ beta + y.mean(0), atol=1e-10)
    assert not readout.coefficients[3].any()


def test_filters_of_the_inverse_covariance_respond_to_all_directions_alike():
    x = images(200, 1, 8, 6)
    x[:, :, 1:] += 2 * x[:, :, :-1]  # neighbours are alike, as in photographs
    inverse = inverse_covariance(x, PatchGeometry.square(2))
    rows = patches(x, 2, 1, 0).reshape(-1, 4)
    product = inverse @ torch.cov(rows.T, correction=0)
    assert torch.allclose(product / product.diagonal().mean(), torch.eye(4, dtype=torch.float64), atol=0.02)
    with pytest.raises(InvalidInput, match="nothing to learn"):
        inverse_covariance(torch.ones(3, 1, 4, 4), PatchGeometry.square(2))


def test_rounds_are_kept_and_the_best_predicts():
    data, other = (
        bars_in_noise(n, sigma=0.5, seed=0, split=s, rows=6, columns=8)
        for n, s in ((80, "train"), (60, "choice"))
    )
    y, wanted = (F.one_hot(part.y, 2).double() for part in (data, other))
    heard = []
    options = dict(
        geometry=PatchGeometry.square(3), n_filters=16, rounds=3, patience=None, listen=heard.append
    )
    machine = learn_features(data.x, y, other.x, wanted, **options)
    errors = [done.error for done in machine.rounds.rounds]
    assert machine.rounds.best == errors.index(min(errors))
    assert [done.number for done in heard] == [0, 1, 2, 3]
    assert not torch.allclose(heard[0].metric, heard[1].metric, atol=0.05)
    assert float((machine(other.x).argmax(1) == other.y).double().mean()) > 0.8
    again = learn_features(data.x, y, other.x, wanted, **options)
    assert torch.equal(again(other.x), machine(other.x))
    unfitted = learn_features(data.x, y, other.x, wanted, **options | {"refit": False})
    kept = machine.rounds.chosen
    outputs = unfitted(other.x)
    assert float((outputs - wanted).square().sum(1).mean()) == pytest.approx(kept.error)


def test_settings_without_meaning_are_refused():
    x, y = images(6, 1, 4, 0), torch.eye(2, dtype=torch.float64)[[0, 1, 0, 1, 0, 1]]
    for wrong in ({"n_filters": 0}, {"rounds": -1}, {"regions": 0}, {"ridges": ()}):
        with pytest.raises(InvalidInput, match="must be at least"):
            learn_features(x, y, x, y, geometry=PatchGeometry.square(3), **wrong)
    with pytest.raises(InvalidInput, match="`ridge`"):
        learn_features(x, y, x, y, geometry=PatchGeometry.square(3), ridges=(0.0,))
