"""Networks that must return what they are given, bit by bit."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight import models
from firstlight._internal.errors import InvalidInput
from reproduce.studies.identity.exact_identity import (
    identity_cnn,
    identity_fcn_linear,
    identity_fcn_relu,
    write_identity,
)

shapes = st.tuples(st.integers(1, 3), st.integers(1, 4), st.integers(1, 4))


def picture(n, c, h, w, seed):
    return torch.randn(n, c, h, w, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@given(shape=shapes, depth=st.integers(1, 6), extra=st.integers(0, 5), seed=st.integers(0, 99))
def test_explicit_fcns_are_the_identity_exactly(shape, depth, extra, seed):
    x = picture(2, *shape, seed)
    d = x[0].numel()
    for model in (
        identity_fcn_linear(shape, depth=depth),
        identity_fcn_linear(shape, depth=depth, units=d + extra),
        identity_fcn_relu(shape, depth=depth),
        identity_fcn_relu(shape, depth=depth, units=2 * d + extra),
    ):
        assert torch.equal(model.double()(x), x)


@given(
    shape=shapes,
    depth=st.integers(1, 6),
    kernel=st.sampled_from([1, 3, 5]),
    extra=st.integers(0, 3),
    seed=st.integers(0, 99),
)
def test_explicit_cnn_is_the_identity_exactly(shape, depth, kernel, extra, seed):
    x = picture(2, *shape, seed)
    model = identity_cnn(shape[0], depth=depth, kernel=kernel, channels=2 * shape[0] + extra)
    assert torch.equal(model.double()(x), x)


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("identity_fcn", {"units": 30, "depth": 4}),
        ("identity_linear_fcn", {"depth": 4}),
        ("residual_fcn", {"blocks": 3}),
        ("identity_cnn", {"channels": 6, "depth": 4}),
    ],
)
def test_identity_can_be_written_into_a_built_model_with_biases(name, options):
    model = write_identity(models.build(name, shape=(1, 3, 5), **options).double())
    x = picture(3, 1, 3, 5, 0)
    assert torch.equal(model(x), x)


def test_a_network_too_narrow_is_refused_and_left_as_it_was():
    model = models.build("identity_fcn", shape=(1, 3, 5), units=29)
    before = [p.clone() for p in model.parameters()]
    with pytest.raises(InvalidInput, match="at least 30 wide"):
        write_identity(model)
    assert all(torch.equal(a, b) for a, b in zip(before, model.parameters(), strict=True))


@pytest.mark.parametrize("name", ["lenet", "fcn"])
def test_a_classifier_cannot_be_the_identity(name):
    with pytest.raises(InvalidInput, match="network of the identity task"):
        write_identity(models.build(name, shape=(1, 28, 28)))
