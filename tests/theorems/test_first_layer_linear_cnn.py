"""FirstLayer, section 4 and appendix A: the linear CNN is trained for real and compared with theory."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from firstlight.measures.first_layer.energy_profile import energy_profile
from firstlight.theory import least_squares as ls
from firstlight.theory import linear_cnn as theory
from firstlight.training import Recipe, Snapshots, train
from reference.gradient_descent import iterate

N, M, RATE = 12, 5, 0.5


class LinearCNN(nn.Module):
    """One convolution, mean over positions, then a fixed read-out over filters."""

    def __init__(self, padding: int, readout: torch.Tensor, seed: int = 0) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, M, 3, padding=padding, bias=False, dtype=torch.float64)
        generator = torch.Generator().manual_seed(seed)
        self.conv.weight.data = 0.1 * torch.randn(M, 3, 3, 3, generator=generator, dtype=torch.float64)
        self.readout = readout

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.conv(x).mean((2, 3)) @ self.readout


@pytest.fixture(params=[0, 1], ids=["no padding", "padding 1"])
def padding(request):
    return request.param


@pytest.fixture
def images():
    return torch.rand(N, 3, 10, 11, generator=torch.Generator().manual_seed(3), dtype=torch.float64)


@pytest.fixture
def y():
    return (torch.arange(N) % 2).double()


def average_patches(images, padding):
    return F.unfold(images, 3, padding=padding).mean(2)


MEAN = torch.full((M,), 1 / M, dtype=torch.float64)
UNEVEN = torch.linspace(-0.1, 0.2, M, dtype=torch.float64)


def trained(images, y, padding, readout, steps):
    model = LinearCNN(padding, readout)
    shots = Snapshots(["conv.weight"], steps=[0, steps])
    recipe = Recipe(lr=RATE, steps=steps, batch_size=None, loss="mse")
    train(model, images, y, recipe, observers=[shots], show=False)
    return [w.flatten(1) for w in shots["conv.weight"]]


def test_lemma_a1_the_network_is_regression_on_the_average_patch(images, padding):
    model = LinearCNN(padding, MEAN)
    mean_filter = model.conv.weight.flatten(1).mean(0)
    assert torch.allclose(model(images), average_patches(images, padding) @ mean_filter, atol=1e-12)


def test_lemma_a2_filters_move_rigidly_and_keep_their_covariance(images, y, padding):
    start, end = trained(images, y, padding, MEAN, 200)
    moved = end - start
    assert (moved - moved.mean(0)).abs().max() < 1e-12
    assert moved.abs().max() > 1e-2
    assert (torch.cov(end.T) - torch.cov(start.T)).abs().max() < 1e-12


@pytest.mark.parametrize("readout", [MEAN, UNEVEN], ids=["mean", "uneven"])
@pytest.mark.parametrize("steps", [1, 50, 400])
def test_theorem_42_trained_filters_equal_the_closed_form(images, y, padding, readout, steps):
    start, end = trained(images, y, padding, readout, steps)
    k = average_patches(images, padding)
    rate = theory.effective_rate(RATE, readout=readout, n=N, loss="mse")
    closed = theory.filters_at(k, y, initial=start, readout=readout, rate=rate, steps=steps)
    assert torch.allclose(closed, end, rtol=1e-9, atol=1e-10)


def test_the_effective_rate_is_the_rate_times_loss_scale_over_width(images, y, padding):
    start, end = trained(images, y, padding, MEAN, 60)
    k = average_patches(images, padding)
    rate = theory.effective_rate(RATE, readout=MEAN, n=N, loss="mse")
    assert rate == pytest.approx(RATE * 2 / N / M)
    expected = iterate(k, y, rate=rate, steps=60, initial=start.mean(0))
    assert torch.allclose(end.mean(0), expected, atol=1e-12)


def test_theorem_a3_the_squared_profile_is_squared_mean_plus_conserved_variance(images, y, padding):
    start, end = trained(images, y, padding, MEAN, 100)
    basis = torch.linalg.qr(torch.randn(27, 27, generator=torch.Generator().manual_seed(0)).double()).Q
    profile = energy_profile(end, basis).square() / M
    mean = (end.mean(0) @ basis).square()
    variance = (start @ basis).var(0, correction=0)
    assert torch.allclose(profile, mean + variance, atol=1e-12)


def test_theorem_41_the_least_squares_mean_filter_is_a_global_minimum(images, y):
    k = average_patches(images, 0)
    best = ls.optimal_weights(ls.spectrum(k), y)
    assert (k.T @ (k @ best - y)).abs().max() < 1e-9
    loss = (k @ best - y).square().sum()
    for seed in range(20):
        other = best + 0.1 * torch.randn(27, generator=torch.Generator().manual_seed(seed)).double()
        assert loss <= (k @ other - y).square().sum()


def problem(n=40, d=9, *, seed=0, shift=0.5):
    generator = torch.Generator().manual_seed(seed)
    k = torch.randn(n, d, generator=generator, dtype=torch.float64) + shift
    return k, ls.spectrum(k)


def draws_of_weights(k, labels, rate, steps):
    """One column per draw of labels."""
    return ls.weights(ls.spectrum(k), labels, rate=rate, steps=steps)


@pytest.mark.parametrize(
    ("coding", "draw"),
    [
        (theory.LabelCoding.BERNOULLI, lambda n, m, g: torch.bernoulli(torch.full((n, m), 0.5), generator=g)),
        (
            theory.LabelCoding.SIGNS,
            lambda n, m, g: 2 * torch.bernoulli(torch.full((n, m), 0.5), generator=g) - 1,
        ),
        (
            theory.LabelCoding.SHUFFLED,
            lambda n, m, g: (torch.rand(n, m, generator=g).argsort(0) < n // 2).float(),
        ),
    ],
    ids=lambda v: getattr(v, "value", ""),
)
def test_random_label_moments_equal_many_draws(coding, draw):
    k, spectral = problem()
    rate, steps, n_draws = 0.5 / spectral.largest, 30, 100_000
    labels = draw(len(k), n_draws, torch.Generator().manual_seed(5)).double()
    weights = draws_of_weights(k, labels, rate, steps)
    moments = theory.random_label_moments(spectral, rate=rate, steps=steps, coding=coding)
    # five standard errors of a mean and of a variance over n_draws
    error = moments.covariance.diagonal().sqrt() / math.sqrt(n_draws)
    assert ((weights.mean(1) - moments.mean).abs() < 5 * error).all()
    ratio = weights.var(1) / moments.covariance.diagonal()
    assert (ratio - 1).abs().max() < 5 * math.sqrt(2 / n_draws) * 1.5
    assert torch.allclose(weights.square().mean(1), moments.squared_profile, rtol=0.03)


def test_expected_profile_at_finite_width_equals_many_draws():
    _, spectral = problem(12, 6)
    y = (torch.arange(12) % 2).double()
    rate, steps, sigma, n_draws = 0.7 / spectral.largest, 8, 0.3, 40_000
    generator = torch.Generator().manual_seed(1)
    initial = sigma * torch.randn(n_draws, M, 6, generator=generator, dtype=torch.float64)
    start = initial.mean(1)
    end = ls.weights(spectral, y, rate=rate, steps=steps)[:, None] + spectral.apply(
        ls.decay(spectral.values, rate=rate, steps=steps), start.T
    )
    profile = (initial + (end.T - start)[:, None]).square().mean((0, 1))
    expected = theory.expected_squared_profile(spectral, y, rate=rate, steps=steps, sigma=sigma, width=M)
    assert torch.allclose(profile, expected, rtol=0.02)
    infinite = ls.weights(spectral, y, rate=rate, steps=steps).square() + sigma**2
    assert ((infinite - expected) / expected).max() > 0.02, "the paper's limit differs at this width"


def test_theorem_a4_equal_class_means_make_true_and_expected_random_weights_equal():
    k, _ = problem(40)
    y = (torch.arange(40) < 20).double()
    k[:20] += k[20:].mean(0) - k[:20].mean(0)
    spectral = ls.spectrum(k)
    for steps in (1, 10, 1000):
        rate = 0.9 / spectral.largest
        trained = ls.weights(spectral, y, rate=rate, steps=steps)
        of_labels = ls.weights(spectral, y - y.mean(), rate=rate, steps=steps)
        random = theory.random_label_moments(spectral, rate=rate, steps=steps)
        assert of_labels.abs().max() < 1e-10
        assert torch.allclose(trained, random.mean, atol=1e-10)


def test_theorem_a5_the_printed_direction_equals_the_short_one():
    generator = torch.Generator().manual_seed(0)
    root = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    sigma, mu = root @ root.T + torch.eye(6), torch.randn(6, generator=generator, dtype=torch.float64)
    direct = torch.linalg.solve(sigma + torch.outer(mu, mu), mu)
    assert torch.allclose(theory.random_label_direction(sigma, mu), direct, rtol=1e-12)


def test_the_diagonal_form_is_exact_when_it_commutes_and_only_then():
    generator = torch.Generator().manual_seed(4)
    scatter = torch.rand(8, generator=generator, dtype=torch.float64) * 3 + 0.2
    moment = torch.randn(8, generator=generator, dtype=torch.float64)
    eigen = torch.zeros(8, dtype=torch.float64)
    eigen[2] = 1.7
    generic = torch.randn(8, generator=generator, dtype=torch.float64)

    def iterated(mean, steps, rate):
        gram, w = torch.diag(scatter) + torch.outer(mean, mean), torch.zeros(8, dtype=torch.float64)
        for _ in range(steps):
            w = w - rate * (gram @ w - moment)
        return w

    for steps in (3, 30):
        for mean, exact in ((eigen, True), (generic, False)):
            rate = 0.9 / (scatter.max() + mean.square().sum()).item()
            form = theory.diagonal_form(scatter, mean, moment, rate=rate, steps=steps)
            true = iterated(mean, steps, rate)
            error = ((form - true).norm() / true.norm()).item()
            assert error < 1e-9 if exact else 1e-4 < error < 0.5


def test_labels_uncorrelated_with_patches_leave_only_patch_statistics():
    k, spectral = problem(40)
    y = torch.rand(40, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    centred = k - k.mean(0)
    y = y - centred @ torch.linalg.lstsq(centred, y - y.mean()).solution
    assert (centred.T @ y).abs().max() < 1e-10
    blind = y.mean() * ls.weights(spectral, torch.ones(40, dtype=torch.float64), rate=0.002, steps=50)
    assert torch.allclose(ls.weights(spectral, y, rate=0.002, steps=50), blind, atol=1e-10)
