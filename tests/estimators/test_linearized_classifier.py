"""The linearised network under scikit-learn's contract."""

import pickle
import warnings

import numpy as np
import pytest
import torch
from sklearn.base import clone

from contract import contract
from firstlight import models
from firstlight._internal.errors import InvalidInput
from firstlight.estimators import LinearizedClassifier, linearized
from firstlight.measures.linearized.exact_solution import solve_linearized


@contract(LinearizedClassifier(width=1 / 16, ridge=1e-6))
def test_the_estimator_keeps_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


def halves(n, seed=0):
    """Noise whose left or right half is brighter by one standard deviation."""
    x = torch.randn(n, 1, 12, 14, generator=torch.Generator().manual_seed(seed))
    y = torch.arange(n) % 2
    x[y == 0, :, :, :7] += 1.0
    x[y == 1, :, :, 7:] += 1.0
    return x, y.numpy()


SMALL = LinearizedClassifier(width=0.5, ridge=(0.0, 1e-4, 1e-1))


def test_the_exact_solver_is_the_direct_solve_of_the_seeded_network():
    x, y = halves(20)
    machine = clone(SMALL).set_params(ridge=0.0).fit(x, y)
    network = models.build("lenet", classes=2, shape=(1, 12, 14), width=0.5).double()
    scaled = (x.double() - x.double().mean()) / x.double().std()
    expected = solve_linearized(network, scaled, torch.eye(2).double()[y], show=False).solution()(scaled)
    difference = (expected[:, 1] - expected[:, 0]).detach().numpy()
    assert np.allclose(machine.decision_function(x), difference, atol=1e-10)
    assert machine.score(x, y) == 1.0


def test_the_ridge_of_the_lowest_validation_error_is_taken():
    x, y = halves(40)
    machine = clone(SMALL).fit(x, y)
    assert machine.ridge_ == SMALL.ridge[int(np.argmin(machine.ridge_errors_))]
    unseen, labels = halves(60, 1)
    assert machine.score(unseen, labels) > 0.8


def test_the_iterative_solver_answers_as_the_exact_one_does():
    x, y = halves(40)
    exact, iterative = (
        clone(SMALL).set_params(ridge=(1e-3, 1e-1), solver=solver).fit(x, y)
        for solver in ("exact", "iterative")
    )
    assert iterative.ridge_ == exact.ridge_
    # ridges are relative to an eigenvalue that the iterative solver knows to a per cent
    assert np.allclose(iterative.decision_function(x), exact.decision_function(x), atol=0.02)
    with pytest.raises(InvalidInput, match=r"at least one number of at least 0.0001; got ridge=1e-06"):
        clone(SMALL).set_params(ridge=1e-6, solver="iterative").fit(x, y)


def test_sgd_trains_and_rows_arrays_and_pickles_agree():
    x, y = halves(40)
    rows = x.numpy().reshape(40, -1)
    machine = clone(SMALL).set_params(solver="sgd", batch_size=8, image_shape=(1, 12, 14)).fit(rows, y)
    assert machine.score(rows, y) > 0.9
    again = pickle.loads(pickle.dumps(machine))
    assert np.array_equal(again.decision_function(x), machine.decision_function(rows))


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"solver": "lbfgs"}, "Unknown solver"),
        ({"ridge": -1.0}, "`ridge` must be"),
        ({"ridge": ()}, "`ridge` must hold"),
        ({"validation": 1.5}, "`validation`"),
        ({"model": "lenett"}, "Did you mean 'lenet'"),
        ({"width": 0}, "`width` must be"),
    ],
)
def test_parameters_without_meaning_are_refused_in_fit(change, says):
    x, y = halves(20)
    with pytest.raises(InvalidInput, match=says):
        clone(SMALL).set_params(**change).fit(x, y)


def test_problems_too_large_for_the_exact_solver_are_refused_before_any_work():
    x, y = np.zeros((7000, 4)), np.arange(7000) % 3
    with pytest.raises(InvalidInput, match="at most 20000 images times classes"):
        LinearizedClassifier(solver="exact").fit(x, y)


@pytest.mark.parametrize(("n", "solver"), [(20, "exact"), (1600, "sgd")])
def test_by_default_only_a_solve_that_ends_soon_is_exact(n, solver):
    x = np.random.default_rng(0).normal(size=(n, 4))
    machine = LinearizedClassifier(width=1 / 16, epochs=2, ridge=1e-6).fit(x, x[:, 0] > 0)
    assert machine.solver_ == solver


def test_a_long_exact_solve_says_first_how_long_it_will_take(monkeypatch):
    monkeypatch.setattr(linearized, "_PATIENCE", 0.0)
    with pytest.warns(UserWarning, match="3001 images times classes will take about"):
        linearized._warn_of_time(3001)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        linearized._warn_of_time(3000)
