"""The residual of a stationary point equals its definition, vanishes at convergence and not before."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import global_seed
from firstlight.data.images import ImageData
from reference import newer_papers as reference
from reference import patch_gradients as plain
from reproduce.studies.newer_papers.stationarity import stationarity

DECAY = 0.02


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(groups=st.integers(1, 2), size=st.integers(1, 3), stride=st.integers(1, 2), seed=st.integers(0, 99))
@settings(max_examples=10, deadline=None)
def test_the_residual_equals_its_definition(groups, size, stride, seed):
    with global_seed("stationarity", seed):
        model = nn.Sequential(
            nn.Conv2d(2, 4, size, stride=stride, groups=groups), nn.Tanh(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
            nn.Linear(16, 3),
        ).double()  # fmt: skip
    labels = torch.arange(5) % 3
    data = ImageData(normal(5, 2, 5, 6, seed=seed), labels, ("a", "b", "c"))
    for row in stationarity(model, data, weight_decay=DECAY):
        features = plain.feature_matrix(model.get_submodule(row.layer))
        fact = reference.loss_gradient_matrix(model, row.layer, data.x, labels, DECAY)
        assert row.residual == pytest.approx(float((features - fact).norm() / features.norm()), rel=1e-9)
        assert row.cosine == pytest.approx(plain.cosine(features, fact), abs=1e-10)
        assert row.asymmetry == pytest.approx(float((fact - fact.mT).norm() / fact.norm() / 2), abs=1e-10)


def labelled(seed=0):
    x = normal(30, 1, 3, 3, seed=seed)
    y = (x[:, 0, 0, 0] * x[:, 0, 1, 1] > 0).long() + (x[:, 0, 2, 2] > 0.5).long()
    return ImageData(x, y, ("a", "b", "c"))


def converged(data, *, steps):
    """A small network trained by L-BFGS on the whole loss with weight decay, in float64."""
    with global_seed("converged", 1):
        model = nn.Sequential(
            nn.Conv2d(1, 4, 2, bias=False), nn.Tanh(), nn.Flatten(), nn.Linear(16, 3, bias=False)
        ).double()
    weights = list(model.parameters())
    optimiser = torch.optim.LBFGS(
        weights, max_iter=steps, tolerance_grad=1e-12, tolerance_change=0, line_search_fn="strong_wolfe"
    )

    def closure():
        optimiser.zero_grad()
        loss = nn.functional.cross_entropy(model(data.x), data.y)
        loss = loss + DECAY / 2 * sum(w.square().sum() for w in weights)
        loss.backward()
        return loss

    optimiser.step(closure)
    return model


def test_the_residual_vanishes_at_convergence_and_only_there():
    data = labelled()
    early, late = (stationarity(converged(data, steps=s), data, weight_decay=DECAY) for s in (3, 600))
    for row in late:
        assert row.residual < 1e-6
        assert row.asymmetry < 1e-6
        assert row.cosine == pytest.approx(1, abs=1e-9)
        assert row.implied_weight_decay == pytest.approx(DECAY, rel=1e-6)
        assert float(row.null_residual.min()) > 0.1  # other labels: not a stationary point
    assert all(row.residual > 0.1 for row in early)


def test_without_weight_decay_there_is_no_answer():
    data = labelled()
    model = converged(data, steps=1)
    for decay in (None, 0.0, -1.0, float("nan")):
        with pytest.raises(InvalidInput, match="must be known and positive"):
            stationarity(model, data, weight_decay=decay)


def test_losses_by_name_and_by_hand_agree_and_nothing_is_left_behind():
    data = labelled()
    model = converged(data, steps=2)
    for weight in model.parameters():
        weight.requires_grad_(False)
        weight.grad = None

    def summed(outputs, labels):
        return (outputs - nn.functional.one_hot(labels, 3)).square().sum(1)

    named, own = (stationarity(model, data, weight_decay=DECAY, loss=which) for which in ("mse_sum", summed))
    assert [row.residual for row in named] == [row.residual for row in own]
    third = stationarity(model, data, weight_decay=DECAY, loss="mse")
    assert third[0].implied_weight_decay == pytest.approx(named[0].implied_weight_decay / 3)
    assert not any(w.requires_grad or w.grad is not None for w in model.parameters())
    with pytest.raises(InvalidInput, match="one number per image"):
        stationarity(model, data, weight_decay=DECAY, loss=lambda outputs, labels: outputs.sum())
    with pytest.raises(InvalidInput, match="Unknown loss"):
        stationarity(model, data, weight_decay=DECAY, loss="hinge")
