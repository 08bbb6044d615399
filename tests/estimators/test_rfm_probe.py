"""The recursive feature machine as a probe keeps scikit-learn's contract and finds what a linear probe cannot."""

import numpy as np
import pytest
import torch

from contract import contract
from firstlight._internal.errors import InvalidInput
from firstlight.estimators import ConvRFMClassifier, RFMProbe


@contract(RFMProbe(rounds=1))
def test_the_probe_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def product(n, *, seed, features=8):
    """Classes by the sign of a product of two features: no plane separates them."""
    rows = np.random.default_rng(seed).standard_normal((n, features))
    return rows, (rows[:, 1] * rows[:, 4] > 0).astype(int)


def test_the_probe_finds_directions_that_a_linear_probe_cannot():
    (x, y), (unseen, truth) = product(300, seed=0), product(300, seed=1)
    probe = RFMProbe().fit(x, y)
    assert probe.best_round_ > 0
    assert probe.score(unseen, truth) > probe.linear_score(unseen, truth) + 0.2
    # of 8 features the two that matter hold the leading two directions
    assert np.square(probe.directions_[:2][:, [1, 4]]).sum() > 1.8
    assert probe.direction_shares_[:2].sum() > 0.7
    assert np.allclose(probe.directions_ @ probe.directions_.T, np.eye(8), atol=1e-8)


def test_the_probe_is_the_machine_on_patches_of_one_pixel():
    x, y = product(80, seed=2)
    probe = RFMProbe(rounds=2).fit(x, y)
    machine = ConvRFMClassifier(family="laplace", rounds=2, precision="double").fit(x, y)
    assert np.array_equal(probe.decision_function(x), machine.decision_function(x))


def test_a_class_of_one_row_is_fitted_and_nan_is_refused():
    x, y = product(60, seed=4)
    y[7] = 2
    probe = RFMProbe(rounds=1).fit(x, y)
    assert probe.predict(x[7:8]) == [2]
    x[3, 2] = np.nan
    with pytest.raises(ValueError, match="NaN"):
        RFMProbe(rounds=1).fit(x, y)


def test_maps_and_tensors_are_flattened():
    x, y = product(60, seed=3)
    rows, maps = (
        RFMProbe(rounds=1).fit(x, y),
        RFMProbe(rounds=1).fit(torch.from_numpy(x).reshape(60, 2, 2, 2), y),
    )
    assert np.array_equal(rows.predict(x), maps.predict(x.reshape(60, 2, 4)))
    assert rows.linear_score(x, y) == maps.linear_score(x.reshape(60, 2, 4), y)
    with pytest.raises(InvalidInput, match="n_directions"):
        RFMProbe(n_directions=0).fit(x, y)
