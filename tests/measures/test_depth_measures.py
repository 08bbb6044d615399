"""Class variation and richness equal their definitions, and tell collapse from chance."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight.measures.layers.activations import activations
from firstlight.measures.layers.class_variation import class_variation
from firstlight.measures.learning_order.discriminability import penultimate_features
from firstlight.measures.linearized.richness import richness
from reference import newer_papers as reference


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(seed=0):
    with global_seed("depth", seed):
        return nn.Sequential(
            nn.Conv2d(2, 3, 3), nn.ReLU(), nn.Flatten(), nn.Linear(48, 10), nn.ReLU(), nn.Linear(10, 3)
        ).double()


def test_activations_are_what_each_layer_receives():
    model, x = network(), normal(70, 2, 6, 6)
    seen = activations(model, x)
    assert list(seen) == ["0", "3", "5", "outputs"]
    assert torch.equal(seen["0"], x.flatten(1))
    assert torch.allclose(seen["3"], model[:3](x), atol=1e-12)
    assert torch.allclose(seen["5"], penultimate_features(model, x), atol=1e-12)
    assert torch.allclose(seen["outputs"], model(x), atol=1e-12)
    some = activations(model, x, layers=["3"], most=5)
    assert list(some) == ["3", "outputs"]
    assert some["3"].shape == (70, 5)
    assert all(any(torch.equal(column, whole) for whole in seen["3"].T) for column in some["3"].T)
    with pytest.raises(InvalidInput, match="Unknown layer"):
        activations(model, x, layers=["7"])
    with pytest.raises(InvalidInput, match="at least one"):
        activations(model, x[:0])


@given(n=st.integers(4, 12), f=st.integers(1, 6), classes=st.integers(2, 3), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_class_variation_equals_its_definition(n, f, classes, seed):
    labels = torch.arange(n) % classes
    layers = {"a": normal(n, f, 2, seed=seed), "b": normal(n, 1, seed=seed + 1)}
    result = class_variation(layers, labels, draws=2, seed=seed)
    for index, features in enumerate(layers.values()):
        assert float(result.ratio[index]) == pytest.approx(reference.class_ratio(features, labels), rel=1e-9)


def test_collapsed_classes_have_a_ratio_of_zero_and_random_features_that_of_shuffled_labels():
    labels = torch.arange(60) % 3
    layers = {"random": normal(60, 20), "collapsed": torch.eye(3).double()[labels]}
    result = class_variation(layers, labels, draws=200)
    assert float(result.ratio[1]) < 1e-12
    assert result.is_below_projections == (False, True)
    # (n - C) / (C - 1) for labels that mean nothing; the mean of ratios of 40 degrees of freedom is 5 % above
    # the ratio of means, and 200 draws give it to 2 %
    assert float(result.shuffled[0].mean()) == pytest.approx(57 / 2, rel=0.12)
    assert float(result.projected[0].mean()) == pytest.approx(float(result.ratio[0]), rel=0.3)


def test_training_lets_the_ratio_fall_with_depth():
    x = normal(90, 2, 6, 6, seed=3)
    labels = torch.arange(90) % 3
    x[:, 0, 0, 0] += 2.0 * labels
    model = network(1)
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(100):
        loss = nn.functional.cross_entropy(model(x), labels)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    result = class_variation(activations(model, x), labels)
    assert result.layers == ("0", "3", "5", "outputs")
    assert float(result.ratio[2]) < 0.1 * float(result.ratio[0])
    assert result.is_below_projections[2]


@pytest.mark.parametrize("labels", [[0, 0, 0], [0, 1, 2]])
def test_classes_must_be_several_and_have_members(labels):
    with pytest.raises(InvalidInput, match="at least two classes and fewer classes than images"):
        class_variation({"a": normal(3, 2)}, torch.tensor(labels))


@given(n=st.integers(4, 12), f=st.integers(2, 15), c=st.integers(1, 3), seed=st.integers(0, 99))
@settings(max_examples=30, deadline=None)
def test_richness_equals_its_definition(n, f, c, seed):
    features = normal(n, f, seed=seed)
    outputs = features @ normal(f, c, seed=seed + 1)
    result = richness(features, outputs, draws=2)
    assert result.value == pytest.approx(reference.feature_alignment(features, outputs), rel=1e-9)
    assert 0 < result.value <= 1 + 1e-12
    shifted = richness(3 * features + 5, outputs @ normal(c, c, seed=7) - 1, draws=2)
    assert shifted.value == pytest.approx(result.value, rel=1e-6)


def test_features_that_are_all_used_are_rich_and_random_ones_are_not():
    hidden = normal(200, 3)
    rich = richness(hidden @ torch.linalg.qr(normal(50, 3)).Q.T, hidden)
    assert rich.value > 0.95
    wide = normal(200, 50)
    lazy = richness(wide, wide @ normal(50, 3, seed=1))
    assert lazy.value < 0.5
    assert abs(lazy.excess) < 0.05
    # as many outputs as features: every readout spans them, and the null says so
    assert float(rich.null.min()) == pytest.approx(rich.value, abs=1e-6)
    assert rich.n_outputs == 3


def test_richness_needs_images_that_differ():
    with pytest.raises(InvalidInput, match="differ between images"):
        richness(torch.ones(5, 2), normal(5, 2))
    with pytest.raises(InvalidInput, match="of the same images"):
        richness(normal(5, 2), normal(4, 2))
