"""The centred ansatz equals its definition, and says what the plain one cannot."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight.measures.feature_ansatz.ansatz import ansatz, centred_ansatz
from reference import newer_papers as reference


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def network(seed, *, filters=6, size=3, stride=1, outputs=3):
    with global_seed("centred", seed):
        return nn.Sequential(
            nn.Conv2d(2, filters, size, stride=stride, padding=1), nn.Tanh(), nn.Conv2d(filters, 5, 2), nn.ReLU(),
            nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(20, outputs),
        ).double()  # fmt: skip


@given(
    filters=st.integers(1, 12),  # also more filters than entries of a patch
    size=st.integers(1, 3),
    stride=st.integers(1, 2),
    outputs=st.integers(1, 3),
    seed=st.integers(0, 99),
)
@settings(max_examples=12, deadline=None)
def test_the_centred_ansatz_equals_its_definition(filters, size, stride, outputs, seed):
    shape = {"filters": filters, "size": size, "stride": stride, "outputs": outputs}
    model, initial = network(seed, **shape), network(seed + 1, **shape)
    x = normal(3, 2, 6, 7, seed=seed)
    rows = {row.layer: row for row in centred_ansatz(model, x, initial=initial, show=False).rows}
    for name in ("0", "2"):
        pearson, cosine = reference.centred_similarities(model, initial, name, x)
        assert rows[name].pearson == pytest.approx(pearson, abs=1e-9)
        assert rows[name].cosine == pytest.approx(cosine, abs=1e-9)
    assert rows["6"].is_output
    assert rows["6"].cosine == pytest.approx(1.0)


def test_layers_that_did_not_move_are_named():
    model = network(0)
    moved = copy.deepcopy(model)
    with torch.no_grad():
        moved[2].weight += normal(5, 6, 2, 2)
    result = centred_ansatz(moved, normal(3, 2, 6, 7), initial=model)
    assert [row.layer for row in result.rows] == ["2"]
    assert result.skipped == {name: "training did not move its weights" for name in ("0", "6")}
    assert centred_ansatz(model, normal(3, 2, 6, 7), initial=model).rows == ()


def trained_pair(*, steps):
    """A wide network that hardly moves its filters, trained on one direction of the inputs."""
    with global_seed("pair", 0):
        model = nn.Sequential(nn.Linear(12, 64), nn.ReLU(), nn.Linear(64, 1)).double()
    initial = copy.deepcopy(model)
    x = normal(200, 12)
    y = torch.tanh(2 * x[:, :1])
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    for _ in range(steps):
        loss = (model(x) - y).square().mean()
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    return model, initial, x


def test_a_random_step_is_not_above_its_null_but_training_is():
    model, initial, x = trained_pair(steps=100)
    learned = centred_ansatz(model, x, initial=initial).rows[0]
    stepped = copy.deepcopy(initial)
    with torch.no_grad():
        size = (model[0].weight - initial[0].weight).norm()
        noise = normal(64, 12, seed=5)
        stepped[0].weight += noise * size / noise.norm()
    random = centred_ansatz(stepped, x, initial=initial).rows[0]
    assert learned.is_above_null
    assert learned.pearson > 0.9
    # the plain ansatz of the random step is high for no reason of training; the centred one is lower
    assert random.pearson < learned.pearson - 0.1
    assert abs(random.excess) < 0.15


def test_the_initial_network_must_be_given_and_must_fit():
    model = network(0)
    with pytest.raises(InvalidInput, match="must be the network before its training"):
        centred_ansatz(model, normal(2, 2, 6, 7), initial=None)
    with pytest.raises(InvalidInput, match="layer '0' differs or is missing"):
        centred_ansatz(model, normal(2, 2, 6, 7), initial=network(0, filters=7))


def test_from_weights_of_zero_it_is_the_plain_ansatz():
    model, x = network(3), normal(4, 2, 6, 7)
    zero = copy.deepcopy(model)
    with torch.no_grad():
        for weight in zero.parameters():
            weight.zero_()
    plain, centred = ansatz(model, x), centred_ansatz(model, x, initial=zero)
    for one, other in zip(plain.rows, centred.rows, strict=True):
        assert one.pearson == pytest.approx(other.pearson, abs=1e-10)
        assert one.pearson_error == pytest.approx(other.pearson_error, abs=1e-8)
