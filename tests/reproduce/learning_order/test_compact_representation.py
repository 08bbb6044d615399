import sys

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F

from firstlight import models
from firstlight._internal.errors import InvalidInput
from reproduce.studies.learning_order.compact_representation import (
    CompactRecorder,
    activation_free_representation,
    compact_representation,
    component_convergence,
)


@given(
    shape=st.sampled_from([(1, 1, 1), (1, 5, 4), (3, 4, 4), (2, 7, 3)]),
    stride=st.integers(1, 2),
    block=st.integers(1, 50),
    seed=st.integers(0, 99),
)
def test_the_matrix_reproduces_a_linear_network_of_any_structure(shape, stride, block, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(shape[0], 4, 3, padding=1, stride=stride),
        nn.Dropout(0.5),
        nn.AvgPool2d(3, stride=1, padding=1),
        nn.Flatten(),
        nn.LazyLinear(3),
    ).double()
    model.eval()(torch.zeros(1, *shape).double())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys.modules[compact_representation.__module__], "BLOCK", block)
        weights = compact_representation(model.train(), shape)
    x = torch.randn(5, *shape, dtype=torch.float64)
    with torch.no_grad():
        expected = model.eval()(x) - model(torch.zeros_like(x))
    torch.testing.assert_close(x.flatten(1) @ weights.T, expected, rtol=1e-10, atol=1e-12)


def test_layers_of_a_deep_linear_network_multiply():
    model = models.build("linear_fcn", classes=3, shape=(1, 4, 4), depth=3, units=10, dropout=0.5)
    product = model.fc3.weight.double() @ model.fc2.weight.double() @ model.fc1.weight.double()
    torch.testing.assert_close(compact_representation(model, (1, 4, 4)), product.detach(), rtol=0, atol=1e-12)
    assert model.training


def test_small_differences_beside_a_large_offset_are_not_lost():
    model = nn.Linear(2, 1)
    model.weight.data[:] = torch.tensor([[1e-7, -2e-7]])
    model.bias.data[:] = 1e3
    torch.testing.assert_close(
        compact_representation(model, (2,)), model.weight.detach().double(), rtol=1e-5, atol=0
    )


class Functional(nn.Module):
    """Activations and pooling as function calls."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(2, 3, 3, padding=1)
        self.out = nn.Linear(3 * 4, 2)

    def forward(self, x):
        return self.out(torch.flatten(F.max_pool2d(torch.tanh(F.relu(self.conv(x))), 2), 1))


def test_activations_are_left_out_in_layers_and_in_function_calls():
    torch.manual_seed(0)
    model = Functional()
    twin = nn.Sequential(model.conv, nn.AvgPool2d(2), nn.Flatten(), model.out)
    expected = compact_representation(twin, (2, 4, 4))
    layered = nn.Sequential(model.conv, nn.GELU(), nn.MaxPool2d(2), nn.Flatten(), model.out)
    torch.testing.assert_close(activation_free_representation(model, (2, 4, 4)), expected)
    torch.testing.assert_close(activation_free_representation(layered, (2, 4, 4)), expected)
    with pytest.raises(InvalidInput, match="must be linear"):
        compact_representation(model, (2, 4, 4))


def test_a_network_that_is_linear_without_its_activations_has_such_a_matrix():
    model = models.build("small", classes=2, shape=(1, 16, 16), width=0.1)
    linear = models.build("small_linear", classes=2, shape=(1, 16, 16), width=0.1)
    weights = [m for m in model.modules() if isinstance(m, nn.Conv2d | nn.Linear)]
    for own, other in zip(
        weights, [m for m in linear.modules() if isinstance(m, nn.Conv2d | nn.Linear)], strict=True
    ):
        other.load_state_dict(own.state_dict())
    torch.testing.assert_close(
        activation_free_representation(model, (1, 16, 16)), compact_representation(linear, (1, 16, 16))
    )


def test_a_network_that_multiplies_its_input_is_refused():
    class Squares(nn.Module):
        def forward(self, x):
            return x * x

    with pytest.raises(InvalidInput, match="not linear even without"):
        activation_free_representation(Squares(), (3,))


def test_spread_and_distance_are_those_of_the_definition():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 2, 4, 5, generator=generator, dtype=torch.float64)
    basis, _ = torch.linalg.qr(torch.randn(5, 5, generator=generator, dtype=torch.float64))
    goal = torch.randn(4, 5, generator=generator, dtype=torch.float64)
    found = component_convergence(weights, basis, optimum=goal, class_mean_removed=False)
    column = torch.stack([w @ basis[:, 2] for w in weights[:, 1]])
    assert float(found.spread[1, 2]) == pytest.approx(float(column.std(0).mean()))
    assert float(found.distance[1, 2]) == pytest.approx(float((column - goal @ basis[:, 2]).abs().mean()))


def test_what_the_softmax_never_trains_can_be_removed():
    generator = torch.Generator().manual_seed(0)
    weights = torch.randn(3, 1, 4, 5, generator=generator, dtype=torch.float64)
    shifted = weights + torch.randn(3, 1, 1, 5, generator=generator, dtype=torch.float64)
    spreads = [
        component_convergence(w, torch.eye(5).double(), class_mean_removed=True).spread
        for w in (weights, shifted)
    ]
    torch.testing.assert_close(*spreads)


def test_the_recorder_keeps_matrices_and_goes_on_from_its_state():
    model = nn.Linear(3, 2, bias=False)
    recorder = CompactRecorder((3,), (0, 2))
    for step in range(2):
        recorder(step, model)
    other = CompactRecorder((3,), (0, 2))
    other.load_state_dict(recorder.state_dict())
    other(2, model)
    state = other.state_dict()
    assert state["steps"].tolist() == [0, 2]
    torch.testing.assert_close(state["weights"][1], model.weight.detach())
