"""The fitted exponent equals its definition, and is 1/L where theory says so."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight.measures.feature_ansatz.ansatz_exponent import ansatz_exponent
from firstlight.measures.feature_ansatz.patch_gradients import patch_gradients
from reference import newer_papers as reference
from reference import patch_gradients as plain


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(inputs=st.integers(2, 5), width=st.integers(2, 6), outputs=st.integers(1, 3), seed=st.integers(0, 99))
@settings(max_examples=8, deadline=None)
def test_the_exponent_equals_its_definition(inputs, width, outputs, seed):
    with global_seed("exponent", seed):
        model = nn.Sequential(nn.Linear(inputs, width), nn.Tanh(), nn.Linear(width, outputs)).double()
    x = normal(6, inputs, seed=seed)
    row = ansatz_exponent(patch_gradients(model, x, show=False))[0]
    power, height = reference.best_power(plain.feature_matrix(model[0])[0], plain.agop(model, "0", x)[0])
    assert height - 1e-8 <= row.cosine <= height + 1e-4  # the grid of the definition misses the top a little
    if not math.isnan(row.exponent):
        assert row.exponent == pytest.approx(power, abs=0.011)


def small_deep_network(*, depth, activation, x, targets, steps, lr, spread=0.03):
    """Trained for real by full-batch gradient descent from small weights."""
    gain = spread ** (1 / depth)
    with global_seed("deep", depth):
        # orthogonal layers of one size are balanced from the start; generic ones become so only slowly
        weights = [
            gain * torch.linalg.qr(torch.randn(len(targets.T), x.shape[1]).double()).Q for _ in range(depth)
        ]
    if torch.linalg.det(torch.linalg.multi_dot(weights)) < 0:
        weights[0][
            0
        ] *= -1  # the sign of the determinant never changes: with the wrong one training gets stuck
    layers = [nn.Linear(*weight.shape, bias=False).double() for weight in weights]
    for layer, weight in zip(layers, weights, strict=True):
        layer.weight.data = weight
    model = nn.Sequential(*[part for layer in layers for part in (layer, activation())][:-1])
    optimiser = torch.optim.SGD(model.parameters(), lr=lr)
    for _ in range(steps):
        loss = (model(x) - targets).square().sum(1).mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model, loss.item()


@pytest.mark.parametrize("depth", [2, 3])
def test_a_trained_deep_linear_network_has_the_exponents_of_the_theorem(depth):
    x = torch.linalg.qr(normal(40, 4)).Q * 40**0.5  # white inputs
    targets = x @ torch.diag(torch.tensor([2.0, 1.5, 1.0, 0.7]).double())
    model, loss = small_deep_network(
        depth=depth, activation=nn.Identity, x=x, targets=targets, steps=800, lr=0.02
    )
    assert loss < 1e-6
    rows = ansatz_exponent(patch_gradients(model, x, show=False))
    for layer, row in enumerate(rows):
        # gradient steps leave layers unbalanced by a multiple of the step
        assert row.exponent == pytest.approx(1 / (depth - layer), abs=0.02)
        assert row.cosine > 0.9999
    assert rows[0].low <= rows[0].exponent <= rows[0].high


def test_a_network_that_is_not_linear_need_not_have_that_exponent():
    x = normal(60, 4, seed=1)
    targets = x.abs() @ torch.diag(torch.tensor([2.0, 1.5, 1.0, 0.7]).double())
    model, _ = small_deep_network(
        depth=3, activation=nn.ReLU, x=x, targets=targets, steps=800, lr=0.02, spread=1
    )
    row = ansatz_exponent(patch_gradients(model, x, show=False))[0]
    assert not row.low <= 1 / 3 <= row.high


def test_the_null_of_isotropic_gradients_is_the_plain_ansatz():
    with global_seed("isotropic", 0):
        model = nn.Sequential(nn.Linear(5, 3, bias=False), nn.Linear(3, 3, bias=False)).double()
    model[1].weight.data = torch.eye(3).double()
    row = ansatz_exponent(patch_gradients(model, normal(5, 5), show=False))[0]
    assert row.exponent == pytest.approx(1, abs=1e-6)
    assert torch.allclose(row.null_exponent, torch.ones(8).double(), atol=1e-6)
    assert not row.is_above_null


def test_a_single_output_determines_no_exponent():
    with global_seed("single", 0):
        model = nn.Sequential(nn.Linear(5, 3, bias=False), nn.Linear(3, 1, bias=False)).double()
    row = ansatz_exponent(patch_gradients(model, normal(5, 5), show=False))[0]
    assert math.isnan(row.exponent)
    assert math.isnan(row.low)
    with pytest.raises(InvalidInput, match="no number without its null"):
        ansatz_exponent(patch_gradients(model, normal(5, 5), show=False), draws=0)
