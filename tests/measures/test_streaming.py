"""Streamed measures give what the functions give at once, to the last bit, however uneven the batches."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

import firstlight
from firstlight._internal.errors import InvalidInput
from firstlight.measures.feature_ansatz.filter_activity import filter_activity
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from firstlight.measures.first_layer.energy_profile import profile
from firstlight.measures.layers.activations import activations
from firstlight.measures.layers.class_variation import class_variation
from firstlight.measures.streaming import (
    StreamedActivity,
    StreamedGradients,
    StreamedProfile,
    StreamedVariation,
)


def network(seed, *, channels=2, outputs=3, stride=1, bias=-0.4):
    torch.manual_seed(seed)
    first = nn.Conv2d(channels, 4, 3, stride=stride, padding=1)
    nn.init.constant_(first.bias, bias)  # so that some filters stay silent
    return nn.Sequential(
        first, nn.ReLU(), nn.BatchNorm2d(4), nn.Conv2d(4, 5, 3, groups=1), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
        nn.Flatten(), nn.Linear(5, outputs),
    ).double()  # fmt: skip


def data(seed, n, *, channels=2, side=6):
    generator = torch.Generator().manual_seed(seed)
    images = torch.randn(n, channels, side, side + 1, generator=generator, dtype=torch.float64)
    return images, torch.arange(n) % 3


def fed(streamed, images, labels, sizes):
    """Run a validation loop over batches of these sizes, and one of all that is left."""
    start = 0
    for size in (*sizes, len(images)):
        streamed.update(images[start : start + size], labels[start : start + size])
        start += size
    return streamed.compute()


drawn = given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([1, 2, 7, 63, 64, 65, 130]),
    sizes=st.lists(st.integers(0, 70), max_size=6),
    stride=st.sampled_from([1, 2]),
)


@drawn
def test_the_streamed_profile_is_that_of_all_images(seed, n, sizes, stride):
    model, (images, labels) = network(seed, stride=stride), data(seed, n)
    whole, streamed = profile(model, images), fed(StreamedProfile(model), images, labels, sizes)
    assert torch.equal(streamed.amplitude, whole.amplitude)
    assert torch.equal(streamed.root_variance, whole.root_variance)
    assert torch.equal(streamed.nulls, whole.nulls)
    assert streamed.pca.n_samples == n


@drawn
def test_streamed_gradients_are_those_of_all_images_with_their_standard_errors(seed, n, sizes, stride):
    model, (images, labels) = network(seed, stride=stride), data(seed, n)
    whole = patch_gradients(model, images, show=False)
    streamed = fed(StreamedGradients(model), images, labels, sizes)
    assert [layer.name for layer in streamed.layers] == ["0", "3", "7"]
    for ours, theirs in zip(streamed.layers, whole.layers, strict=True):
        assert torch.equal(ours.parts, theirs.parts)
        assert torch.equal(ours.counts, theirs.counts)
    assert (streamed.n_images, streamed.method) == (n, whole.method)


@drawn
def test_streamed_activity_is_that_of_all_images(seed, n, sizes, stride):
    model, (images, labels) = network(seed, stride=stride, bias=-4.0), data(seed, n)
    whole = filter_activity(model, images)
    streamed = fed(StreamedActivity(model), images, labels, sizes)
    assert whole.active.keys() == streamed.active.keys()
    for name, active in whole.active.items():
        assert torch.equal(streamed.active[name], active)


@given(
    seed=st.integers(0, 10**6),
    n=st.sampled_from([4, 65, 130]),
    sizes=st.lists(st.integers(0, 70), max_size=4),
)
def test_streamed_variation_is_that_of_all_images_with_its_nulls(seed, n, sizes):
    model, (images, labels) = network(seed), data(seed, n)
    whole = class_variation(activations(model, images, most=20), labels, draws=3)
    streamed = fed(StreamedVariation(model, most=20, draws=3), images, labels, sizes)
    assert streamed.layers == whole.layers
    for name in ("ratio", "shuffled", "projected"):
        assert torch.equal(getattr(streamed, name), getattr(whole, name))


def test_many_outputs_get_the_same_random_signs():
    model, (images, labels) = network(0, outputs=50), data(0, 70)
    whole = patch_gradients(model, images, seed=3, show=False)
    streamed = fed(StreamedGradients(model, seed=3), images, labels, (5, 60))
    assert not whole.is_exact
    assert torch.equal(streamed["0"].parts, whole["0"].parts)


def test_results_between_batches_are_those_so_far_and_do_not_change_later():
    model, (images, _) = network(0), data(0, 100)
    gradients, activity = StreamedGradients(model), StreamedActivity(model)
    for streamed in (gradients, activity):
        streamed.update(images[:70])
    first = gradients.compute()
    held = first["0"].parts.clone()
    assert first.n_images == 70
    assert torch.equal(first["0"].parts, patch_gradients(model, images[:70], show=False)["0"].parts)
    gradients.update(images[70:])
    assert gradients.compute().n_images == 100
    assert torch.equal(first["0"].parts, held)
    whole = patch_gradients(model, images, show=False)["0"].covariance
    assert torch.allclose(gradients.compute()["0"].covariance, whole, rtol=1e-12, atol=0)


def test_a_validation_loop_in_inference_mode_is_measured_and_left_as_it_was():
    model, (images, labels) = network(0), data(0, 9)
    model.train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    streams = [
        kind(model) for kind in (StreamedProfile, StreamedGradients, StreamedActivity, StreamedVariation)
    ]
    with torch.inference_mode():
        for batch in (slice(0, 4), slice(4, 9)):
            model.eval()(images[batch] + 0)  # what the loop is for
            for streamed in streams:
                streamed.update(images[batch] + 0, labels[batch])
        results = [streamed.compute() for streamed in streams]
    assert torch.equal(results[1]["0"].parts, patch_gradients(model, images, show=False)["0"].parts)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert all(p.grad is None for p in model.parameters())


def test_reset_forgets_and_weights_that_changed_are_noticed():
    model, (images, labels) = network(0), data(0, 8)
    streamed = StreamedProfile(model)
    streamed.update(images)
    with torch.no_grad():
        model[0].weight.mul_(2)
    with pytest.raises(InvalidInput, match=r"weights have changed.*Call `reset`"):
        streamed.update(images)
    streamed.reset()
    assert torch.equal(fed(streamed, images, labels, (3,)).amplitude, profile(model, images).amplitude)


@pytest.mark.parametrize("kind", [StreamedProfile, StreamedGradients, StreamedActivity, StreamedVariation])
def test_what_cannot_be_measured_is_refused(kind):
    model, (images, labels) = network(0), data(0, 8)
    with pytest.raises(InvalidInput, match="`compute` needs at least one image"):
        kind(model).compute()
    streamed = kind(model)
    streamed.update(images[:0], labels[:0])
    with pytest.raises(InvalidInput, match="`compute` needs at least one image"):
        streamed.compute()
    streamed.update(images, labels)
    with pytest.raises(InvalidInput, match=r"shape of the first ones, \(2, 6, 7\); got \(2, 6, 6\)"):
        streamed.update(images[..., :6], labels)
    with pytest.raises(InvalidInput, match="NaN or infinite"):
        streamed.update(images / 0, labels)


def test_variation_needs_labels():
    model, (images, labels) = network(0), data(0, 8)
    for given_labels in (None, labels[:3]):
        with pytest.raises(InvalidInput, match="`labels` must hold the class of each of the 8 images"):
            StreamedVariation(model).update(images, given_labels)


def test_a_half_precision_network_is_measured_as_at_once():
    photos = firstlight.load("photos", n=6)
    model = firstlight.build("small", classes=8, width=0.25).half()
    whole = patch_gradients(model, photos.x, show=False)
    streamed = fed(StreamedGradients(model), photos.x, photos.y, (4,))
    assert torch.equal(streamed.layers[0].parts, whole.layers[0].parts)
    assert streamed.note == whole.note
