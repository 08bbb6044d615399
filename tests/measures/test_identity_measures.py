"""Measures of the identity task against their definitions, and on networks whose behaviour is known."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.data import ImageData
from firstlight.maths import pearson, sobel_magnitude
from firstlight.measures.copy_or_memorise.identity_score import (
    behaviour,
    edge_score,
    identity_score,
    response,
    similarities,
)
from firstlight.questions.copy_or_memorise.images import resized
from reference import identity as naive
from reproduce.studies.identity.exact_identity import identity_cnn
from reproduce.studies.identity.layer_images import (
    layer_images,
    output_variation,
    size_response,
    stage_outputs,
    top_singular_image,
    upper_outputs,
    weight_changes,
    weight_layers,
    with_circular_padding,
)
from reproduce.studies.identity.layers import averaging_votes, class_sums, layer_probe

sizes = st.tuples(st.integers(1, 4), st.integers(1, 3), st.integers(1, 6), st.integers(1, 5))


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(shape=sizes, kind=st.sampled_from(["cosine", "pearson"]), flat=st.booleans(), seed=st.integers(0, 99))
@settings(max_examples=40)
def test_similarities_equal_the_definition(shape, kind, flat, seed):
    a, b = draw(*shape, seed=seed), draw(*shape, seed=seed + 1)
    if flat:
        a[0] = 0.3
    expected = [
        naive.similarity(x.flatten(), y.flatten(), centred=kind == "pearson")
        for x, y in zip(a, b, strict=True)
    ]
    assert torch.allclose(similarities(a, b, kind=kind), torch.tensor(expected).double(), atol=1e-9)


def test_a_flat_image_resembles_nothing_and_nan_is_refused():
    a = torch.full((1, 1, 3, 3), 0.1)
    assert similarities(a, draw(1, 1, 3, 3)).item() == 0
    with pytest.raises(InvalidInput, match="NaN"):
        similarities(a * torch.nan, a)


def test_score_knows_the_two_references_and_takes_the_nearest_of_several_training_images():
    inputs, training = draw(5, 1, 4, 4), draw(3, 1, 4, 4, seed=1)
    copied = identity_score(inputs, inputs, training)
    assert torch.allclose(copied.identity, torch.ones(5).double())
    assert copied.mse_identity.max() == 0
    memorised = identity_score(training[[0, 1, 2, 1, 0]], inputs, training, similarity="cosine")
    assert torch.allclose(memorised.constant, torch.ones(5).double())
    assert memorised.mse_constant.max() == 0


def test_response_of_the_identity_and_of_a_constant_map():
    image = draw(1, 5, 5)

    class Constant(nn.Module):
        def forward(self, x):
            return image.expand_as(x)

    copying = response(nn.Identity(), image, draws=2)
    assert torch.allclose(copying.identity, torch.ones(11).double())
    assert torch.allclose(copying.constant, copying.rhos)
    constant = response(Constant(), image, draws=2)
    assert torch.allclose(constant.constant, torch.ones(11).double())
    assert torch.allclose(constant.identity, constant.rhos)


@given(h=st.integers(1, 7), w=st.integers(1, 7), seed=st.integers(0, 50))
@settings(max_examples=20)
def test_sobel_magnitude_equals_the_definition(h, w, seed):
    image = draw(1, 2, h, w, seed=seed)
    expected = torch.tensor([naive.sobel(channel) for channel in image[0]], dtype=torch.float64)
    assert torch.allclose(sobel_magnitude(image)[0], expected, atol=1e-9)


@pytest.mark.parametrize(
    ("numbers", "word"),
    [
        ({"identity": 0.95, "constant": 0.5, "edges": 0.6, "at_zero": (0.8, 0.1)}, "identity"),
        ({"identity": 0.4, "constant": 0.85, "edges": 0.6, "at_zero": (0.0, 0.9)}, "constant"),
        ({"identity": 0.5, "constant": 0.3, "edges": 0.6, "at_zero": (0.3, 0.3)}, "edge detector"),
        ({"identity": 0.3, "constant": 0.3, "edges": 0.2, "at_zero": (0.05, -0.05)}, "noise"),
        ({"identity": 0.7, "constant": 0.3, "edges": 0.2, "at_zero": (0.05, -0.05)}, "none"),
        ({"identity": 0.7, "constant": 0.3, "edges": 0.6, "at_zero": (0.3, 0.3)}, "none"),
    ],
)
def test_verdict_follows_the_documented_thresholds(numbers, word):
    assert behaviour(**numbers) == word


def test_an_edge_filter_follows_edges_and_the_identity_does_not():
    images = torch.rand(4, 1, 12, 12, generator=torch.Generator().manual_seed(0)).round()
    images = nn.functional.interpolate(images[:, :, :4, :4], scale_factor=3.0)
    edges = edge_score(sobel_magnitude(images), images)
    copied = edge_score(images, images)
    assert edges.edges.mean() > 0.7
    assert edges.relative > copied.relative


@given(
    n=st.integers(1, 12), m=st.integers(1, 4), d=st.integers(1, 6), k=st.integers(1, 4), s=st.integers(0, 99)
)
@settings(max_examples=30)
def test_averaging_votes_equal_voting_by_every_example(n, m, d, k, s):
    train, test = draw(n, d, seed=s), draw(m, d, seed=s + 1)
    labels = torch.randint(k, (n,), generator=torch.Generator().manual_seed(s))
    votes = averaging_votes(test, class_sums(train, labels, n_classes=k))
    expected = torch.tensor(naive.voting_table(test, train, labels.tolist(), k), dtype=torch.float64)
    assert torch.allclose(votes, expected, atol=1e-10)


def test_layer_probe_of_the_identity_has_one_error_everywhere_and_batches_do_not_matter():
    y = torch.arange(40) % 4
    x = draw(40, 1, 5, 5).float() + nn.functional.one_hot(y, 25).reshape(40, 1, 5, 5)
    data = ImageData(x, y, ("a", "b", "c", "d"))
    model = identity_cnn(1, depth=3)
    whole = layer_probe(model, data, data)
    parts = layer_probe(model, data, data, batch_size=7)
    assert torch.equal(whole.errors, parts.errors)
    assert whole.errors[0] == whole.errors[-1]
    assert len(whole.errors) == 4
    assert whole.chance == 0.75


def test_stages_hold_one_weight_layer_each_and_compose_to_the_model():
    for name, options, count in [
        ("identity_cnn", {"depth": 4, "channels": 3}, 4),
        ("identity_fcn", {"depth": 3}, 3),
        ("residual_fcn", {"blocks": 2}, 2),
    ]:
        model = models.build(name, shape=(2, 4, 3), **options)
        x = draw(2, 2, 4, 3).float()
        assert len(weight_layers(model)) == count
        assert torch.equal(stage_outputs(model, x)[-1], model(x))
    with pytest.raises(InvalidInput, match=r"nn\.Sequential"):
        weight_layers(nn.Conv2d(1, 1, 3))


def test_upper_subnetworks_get_the_image_on_every_channel():
    model = models.build("identity_cnn", shape=(1, 6, 6), depth=4, channels=5)
    x = draw(2, 1, 6, 6).float()
    top = nn.Sequential(*list(model.children())[-3:])  # conv3, relu3, conv4
    assert torch.equal(upper_outputs(model, x, layers=2), top(x.expand(2, 5, 6, 6)))
    assert torch.equal(upper_outputs(model, x, layers=4), model(x))
    with pytest.raises(InvalidInput, match=r"`layers` must lie in 1 \.\. 4"):
        upper_outputs(model, x, layers=5)


def test_circular_padding_makes_the_network_forget_where_the_border_is():
    model = models.build("identity_cnn", shape=(1, 8, 8), depth=3, channels=4)
    twin = with_circular_padding(model)
    x = draw(1, 1, 8, 8).float()
    rolled = twin(x.roll((3, 2), (2, 3)))
    assert torch.allclose(rolled, twin(x).roll((3, 2), (2, 3)), atol=1e-6)
    assert not torch.allclose(model(x.roll(3, 2)), model(x).roll(3, 2), atol=1e-4)


@given(c=st.integers(1, 5), h=st.integers(1, 5), w=st.integers(1, 5), seed=st.integers(0, 50))
@settings(max_examples=20)
def test_top_singular_image_is_the_fixed_point_of_power_iteration(c, h, w, seed):
    activation = draw(c, h, w, seed=seed)
    values = torch.linalg.svdvals(activation.flatten(1))
    if len(values) > 1 and values[1] > 0.97 * values[0]:
        return  # nearly tied: power iteration has not settled
    expected = naive.power_iteration_image(activation)
    found = top_singular_image(activation)
    assert abs(abs((found * expected).sum().item()) - 1) < 1e-6
    assert top_singular_image(torch.zeros(c, h, w)).abs().max() == 0


def test_layer_images_of_the_identity_show_the_input():
    image = draw(1, 6, 7).float()
    found = layer_images(identity_cnn(1, depth=3), image)
    assert abs(float(pearson(found.best[-1].flatten(), image.mean(0).flatten()))) == pytest.approx(1)
    assert found.singular.shape == found.first.shape == (3, 6, 7)
    with pytest.raises(InvalidInput, match="keep the image size"):
        layer_images(models.build("identity_fcn", shape=(1, 6, 7)), image)


def test_size_response_and_variation_know_the_identity_and_a_constant():
    images = draw(3, 1, 8, 8).float()
    found = size_response(identity_cnn(1, depth=2), images, (4, 8, 16))
    assert torch.allclose(found.identity, torch.ones(3).double())
    assert output_variation(images[:1].expand(4, 1, 8, 8)) == 0
    assert output_variation(images) > 0.5
    assert resized(images, 16).shape == (3, 1, 16, 16)


def test_weight_changes_are_relative_and_leave_biases_out():
    model = models.build("identity_fcn", shape=(1, 2, 2), depth=2)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    after = {k: 1.5 * v for k, v in before.items()}
    changes = weight_changes(before, after)
    assert set(changes) == {"fc1.weight", "fc2.weight"}
    assert all(abs(v - 0.5) < 1e-6 for v in changes.values())
