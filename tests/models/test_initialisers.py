"""Weights are drawn with the spread that the papers state."""

import math

import pytest
import torch

from firstlight import models
from firstlight._internal.errors import InvalidInput


def assert_variance(weight, variance, *, fourth_over_square):
    """Hold the mean of squares within five standard errors; kurtosis 3 for normal, 9/5 for uniform."""
    squares = weight.double().square()
    error = math.sqrt((fourth_over_square - 1) / weight.numel()) * variance
    assert abs(squares.mean().item() - variance) < 5 * error
    assert abs(weight.double().mean().item()) < 5 * math.sqrt(variance / weight.numel())


NORMAL, UNIFORM = 3.0, 1.8


@pytest.mark.parametrize(
    ("initialiser", "kurtosis", "variance"),
    [
        ("xavier_normal", NORMAL, lambda fi, fo: 2 / (fi + fo)),
        ("xavier_uniform", UNIFORM, lambda fi, fo: 2 / (fi + fo)),
        ("kaiming_normal", NORMAL, lambda fi, fo: 2 / fi),
        ("kaiming_uniform", UNIFORM, lambda fi, fo: 2 / fi),
        ("identity_crisis", NORMAL, lambda fi, fo: 1 / math.sqrt(fi * fo)),
        ("default", UNIFORM, lambda fi, fo: 1 / (3 * fi)),
    ],
)
@pytest.mark.parametrize("seed", [0, 1])
def test_variance_of_every_layer_follows_from_its_fans(initialiser, kurtosis, variance, seed):
    model = models.build("cnfa_cnn", shape=(3, 12, 12), initialiser=initialiser, seed=seed)
    for weight in model.parameters():
        area = math.prod(weight.shape[2:])
        expected = variance(weight.shape[1] * area, weight.shape[0] * area)
        assert_variance(weight.detach(), expected, fourth_over_square=kurtosis)


@pytest.mark.parametrize("depth", [1, 2, 4])
def test_definition_3_of_pcbias(depth):
    q, m, k = 300, 150, 40
    model = models.build(
        "linear_fcn", classes=k, shape=(3, 10, 10), depth=depth, units=m, seed=7,
        initialiser="pcbias",
    )  # fmt: skip
    expected = {1: [1 / q], 2: [1 / m, 1 / m], 4: [1 / m, 2 / (m + m), 2 / (m + m), 1 / m]}[depth]
    for layer, variance in zip(model.layers, expected, strict=True):
        assert_variance(layer.weight.detach(), variance, fourth_over_square=NORMAL)


def test_definition_3_differs_from_glorot_in_unequal_middle_layers_too():
    chain = torch.nn.Sequential(torch.nn.Linear(50, 100), torch.nn.Linear(100, 300), torch.nn.Linear(300, 20))
    models.initialise(chain, "pcbias", seed=0)
    for layer, variance in zip(chain, [1 / 100, 2 / 400, 1 / 300], strict=True):
        assert_variance(layer.weight.detach(), variance, fourth_over_square=NORMAL)


def test_pooling_study_starts_smaller_in_its_first_layer():
    model = models.build("pooling_max", initialiser="pooling_study")
    weights = [p.detach() for p in model.parameters()]
    assert_variance(weights[0], 5e-3**2, fourth_over_square=NORMAL)
    for weight in weights[1:]:
        assert_variance(weight, 1e-2**2, fourth_over_square=NORMAL)


def test_orthogonal_has_orthonormal_rows(float64):
    model = models.build("cnfa_cnn", shape=(3, 8, 8), initialiser="orthogonal")
    for weight in model.parameters():
        flat = weight.detach().flatten(1)
        small = flat @ flat.T if flat.shape[0] <= flat.shape[1] else flat.T @ flat
        torch.testing.assert_close(small, torch.eye(len(small)))


@pytest.mark.parametrize("initialiser", ["xavier_normal", "orthogonal", "normal", "identity_crisis"])
def test_biases_become_zero_and_batch_norm_the_identity(initialiser):
    model = models.build("vgg11_bn", width=0.125)
    for parameter in model.parameters():
        parameter.data.fill_(3.0)
    model.features[1].running_mean.fill_(2.0)
    models.initialise(model, initialiser, seed=0)
    assert not model.classifier.bias.any()
    assert not model.features[1].running_mean.any()
    assert torch.equal(model.features[1].weight, torch.ones(8))
    assert (model.features[0].weight != 3).all()


def test_same_seed_same_bits_and_the_callers_state_is_untouched():
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    first = models.initialise(torch.nn.Linear(9, 9), "xavier_normal", seed=4)
    torch.manual_seed(0)
    again = models.initialise(torch.nn.Linear(9, 9), "xavier_normal", seed=4)
    other = models.initialise(torch.nn.Linear(9, 9), "xavier_normal", seed=5)
    assert torch.equal(first.weight, again.weight)
    assert not torch.equal(first.weight, other.weight)
    torch.manual_seed(0)
    models.initialise(first, "default", seed=1)
    assert torch.equal(torch.rand(3), expected)


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("pcbias", {}, "fully connected"),
        ("kaiming", {}, "Did you mean 'kaiming"),
        ("default", {"std": 1.0}, "Unknown option of initialiser 'default'"),
        ("normal", {"std": -1.0}, "`std` must be finite"),
    ],
)
def test_bad_initialisation_is_refused_in_words(name, options, message):
    with pytest.raises(InvalidInput, match=message):
        models.initialise(models.build("lenet"), name, seed=0, **options)


def test_a_model_without_layers_is_refused():
    with pytest.raises(InvalidInput, match="at least one linear or convolutional layer"):
        models.initialise(torch.nn.ReLU(), "normal", seed=0)
