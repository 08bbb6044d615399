"""Derivatives kept from the start give the linear model that autograd gives, image by image and step by step."""

import copy

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from firstlight.models import build, linearize
from firstlight.training import Recipe, train
from reference.linearized import jacobian
from reproduce.studies.linearized import tangent_features as tangent
from reproduce.studies.linearized.tangent_features import tangent_features


@st.composite
def cases(draw):
    """A small network of convolutions and linear layers, its images, and a displacement."""
    c, h, w = draw(st.integers(1, 3)), draw(st.integers(3, 7)), draw(st.integers(3, 7))
    stride, padding, biased = draw(st.integers(1, 3)), draw(st.integers(0, 2)), draw(st.booleans())
    with torch.random.fork_rng():
        torch.manual_seed(draw(st.integers(0, 99)))
        conv = nn.Conv2d(c, 2, (3, 2), stride=stride, padding=padding, bias=biased)
        size = conv(torch.zeros(1, c, h, w)).numel()
        layers = [conv, nn.ReLU(), nn.Flatten(), nn.Linear(size, 3, bias=biased), nn.Tanh(), nn.Linear(3, 2)]
        model = nn.Sequential(*layers[draw(st.sampled_from((0, 2))) :])
        if not isinstance(model[0], nn.Conv2d):
            model = nn.Sequential(nn.Flatten(), nn.Linear(c * h * w, 3), nn.Tanh(), nn.Linear(3, 1))
        images = torch.randn(draw(st.integers(1, 4)), c, h, w)
        if draw(st.booleans()):
            images[-1] = draw(st.sampled_from((0.0, 1.0)))  # zero, constant
    return model.double(), images.double()


@given(cases())
def test_outputs_and_gradients_are_those_of_the_jacobian(case):
    model, images = case
    fixed = tangent_features(model, images)
    numbers = torch.arange(len(images))[:, None]
    whole = jacobian(model, images)
    generator = torch.Generator().manual_seed(1)
    u = torch.randn(whole.shape[1], generator=generator, dtype=torch.float64)
    sizes = [p.numel() for p in model.parameters()]
    with torch.no_grad():
        for (name, p), part in zip(model.named_parameters(), torch.split(u, sizes), strict=True):
            fixed.displacement[name.replace(".", "/")].copy_(part.reshape(p.shape))
    outputs = fixed(numbers)
    expected = model(images) + (whole @ u).reshape(outputs.shape)
    torch.testing.assert_close(outputs, expected, rtol=1e-10, atol=1e-10)
    r = torch.randn(outputs.shape, generator=generator, dtype=torch.float64)
    outputs.backward(r)
    pulled = torch.cat(
        [fixed.displacement[n.replace(".", "/")].grad.flatten() for n, _ in model.named_parameters()]
    )
    torch.testing.assert_close(pulled, whole.T @ r.flatten(), rtol=1e-10, atol=1e-10)
    assert {name: tuple(value.shape) for name, value in fixed.weights().items()} == {
        name: tuple(p.shape) for name, p in model.named_parameters()
    }


def test_sgd_on_numbers_of_images_is_sgd_on_images():
    model = build("lenet", classes=3, shape=(1, 16, 16), width=0.5, seed=2).double()
    generator = torch.Generator().manual_seed(0)
    images = torch.randn(40, 1, 16, 16, generator=generator, dtype=torch.float64)
    targets = torch.randn(40, 3, generator=generator, dtype=torch.float64)
    recipe = Recipe(lr=0.003, momentum=0.9, weight_decay=0.01, loss="mse_sum", batch_size=7, epochs=4, seed=3)
    line, fixed = linearize(model), tangent_features(model, images)
    by_images = train(line, images, targets, recipe, show=False).loss
    by_numbers = train(fixed, torch.arange(40)[:, None], targets, recipe, show=False).loss
    torch.testing.assert_close(by_numbers, by_images, rtol=1e-9, atol=0)
    assert by_images[-6:].mean() < 0.9 * by_images[:6].mean()  # something was learned
    other = torch.randn(5, 1, 16, 16, generator=generator, dtype=torch.float64)
    moved = linearize(model).displace(fixed.weights())
    torch.testing.assert_close(moved(other), line(other), rtol=1e-8, atol=1e-10)


def test_half_precision_rounds_and_reset_goes_back_to_the_network():
    model = build("lenet", classes=2, shape=(1, 16, 16), width=0.5, seed=0)
    images = torch.randn(6, 1, 16, 16, generator=torch.Generator().manual_seed(0))
    exact, rounded = (tangent_features(model, images, kept_as=kept) for kept in (None, torch.float16))
    numbers = torch.arange(6)[:, None]
    for fixed in (exact, rounded):
        with torch.no_grad():
            for u in fixed.displacement.values():
                u.fill_(0.1)
    difference = float((exact(numbers) - rounded(numbers)).detach().abs().max())
    assert 0 < difference < 2e-3 * float((exact(numbers) - model(images)).detach().abs().max())
    rounded.reset()
    assert torch.equal(rounded(numbers), model(images))


def test_blocks_wait_for_the_others_in_the_precision_in_which_they_are_kept(monkeypatch):
    """All digits in full precision, beside the result, took 14 GB."""
    waiting = []
    joined = tangent._joined

    def look(parts):
        waiting.extend(part["rows"].dtype for part in parts)
        return joined(parts)

    monkeypatch.setattr(tangent, "_BLOCK", 2)
    monkeypatch.setattr(tangent, "_joined", look)
    model = build("lenet", classes=2, shape=(1, 16, 16), width=0.5, seed=0)
    tangent_features(model, torch.randn(5, 1, 16, 16), kept_as=torch.float16)
    assert waiting == [torch.float16] * 3


def test_weights_elsewhere_and_layers_called_twice_are_refused():
    images = torch.zeros(1, 1, 4, 4)
    twice = nn.Linear(16, 16)
    half_frozen = nn.Sequential(nn.Flatten(), nn.Linear(16, 2))
    half_frozen[1].bias.requires_grad_(False)
    for model in (
        nn.Sequential(nn.BatchNorm2d(1), nn.Flatten(), nn.Linear(16, 2)),
        nn.Sequential(nn.Conv2d(1, 1, 3, padding="same"), nn.Flatten()),
        nn.Sequential(nn.Flatten(), twice, twice),
        half_frozen,
    ):
        with pytest.raises(AssertionError):
            tangent_features(copy.deepcopy(model).eval(), images)
