"""Feature layers of a Deep ConvRFM, and how far they separate the classes."""

import pytest
import torch
from sklearn.datasets import load_digits
from sklearn.exceptions import NotFittedError

from firstlight.estimators import DeepConvRFMClassifier, feature_layers
from firstlight.measures.layers.class_variation import class_variation


@pytest.fixture(scope="module")
def digits():
    x, y = load_digits(return_X_y=True)
    return torch.from_numpy(x).reshape(-1, 1, 8, 8) / 16, torch.from_numpy(y)


def fitted(x, y):
    # without the ReLU, as in the published code: classes separate more from layer to layer
    machine = DeepConvRFMClassifier(
        depth=3, layers=2, filters=16, rounds=1, padding=1, ridges=(1e-3,), activation="none"
    )
    return machine.fit(x[:120], y[:120])


@pytest.fixture(scope="module")
def machine(digits):
    return fitted(*digits)


def test_layers_are_the_convolutions_that_the_machine_applies(machine, digits):
    x = digits[0][200:203]
    layers = feature_layers(machine, x)
    assert list(layers) == ["images", *(f"feature layer {i + 1}" for i in range(machine.best_layer_))]
    assert torch.equal(layers["images"], x)
    expected = x
    for filters in machine.filters_:
        expected = torch.conv2d(expected, filters, padding=1)
    assert torch.allclose([*layers.values()][-1], expected, atol=1e-12)


def test_classes_separate_in_a_deep_machine_more_than_in_random_projections(machine, digits):
    x, y = (part[200:500] for part in digits)
    variation = class_variation(feature_layers(machine, x), y)
    assert variation.is_below_projections == (False, True, True)
    assert variation.ratio[0] > variation.ratio[1] > variation.ratio[2]


def test_validation_takes_no_feature_layer_if_the_labels_mean_nothing(digits):
    x, y = digits
    order = torch.randperm(len(y), generator=torch.Generator().manual_seed(0))
    assert list(feature_layers(fitted(x, y[order]), x[:3])) == ["images"]


def test_a_machine_must_be_fitted(digits):
    with pytest.raises(NotFittedError):
        feature_layers(DeepConvRFMClassifier(), digits[0])
