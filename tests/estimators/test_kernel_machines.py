"""The contract of scikit-learn, and what is particular to images."""

import pickle

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics import log_loss
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer
from sklearn.utils.estimator_checks import parametrize_with_checks

from contract import contract
from firstlight._internal.errors import InvalidInput
from firstlight.estimators import (
    CNTKClassifier,
    CNTKRegressor,
    ConvRFMClassifier,
    ConvRFMRegressor,
    DeepConvRFMClassifier,
    load_machine,
    save_machine,
)
from firstlight.kernels import ConvKernel, kernel_gram
from reproduce.studies.feature_ansatz.noisy_images import bars_in_noise

ALL = [
    CNTKClassifier(),
    CNTKRegressor(),
    ConvRFMClassifier(rounds=1),
    ConvRFMRegressor(rounds=1),
    DeepConvRFMClassifier(rounds=1, depth=2, filters=8),
]


@parametrize_with_checks([CNTKClassifier(), CNTKRegressor()])
def test_estimators_keep_the_contract_of_scikit_learn(estimator, check):
    check(estimator)


DRAWN = [
    ConvRFMClassifier(solver="features", rounds=1, filters=16),
    ConvRFMRegressor(solver="features", rounds=1, filters=16),
]


@contract(*ALL[2:], *DRAWN)
def test_estimators_that_learn_their_kernel_keep_it_too(estimator, check):
    check(estimator)


def bars(n: int, split: str = "train"):
    data = bars_in_noise(n, sigma=0.3, seed=0, split=split, rows=6, columns=8)
    return data.x, data.y.numpy()


@pytest.mark.parametrize("estimator", [ALL[0], ALL[2], ALL[4]])
def test_rows_with_a_shape_arrays_and_tensors_are_the_same_images(estimator):
    x, y = bars(40)
    machine = clone(estimator).set_params(depth=2)
    rows = clone(machine).set_params(image_shape=(1, 6, 8)).fit(x.numpy().reshape(40, -1), y)
    tensors, arrays = clone(machine).fit(x, y), clone(machine).fit(x.numpy(), y)
    expected = rows.decision_function(x.reshape(40, -1).numpy())
    assert np.array_equal(tensors.decision_function(x), expected)
    assert np.array_equal(arrays.decision_function(x.numpy()), expected)
    without_channel = clone(machine).fit(x.numpy()[:, 0], y)
    assert np.array_equal(without_channel.decision_function(x.numpy()[:, 0]), expected)


def test_probabilities_are_refused_with_a_reason_and_come_from_calibration():
    x, y = bars(120)
    machine = CNTKClassifier(depth=2).fit(x, y)
    assert not hasattr(machine, "predict_proba")
    with pytest.raises(AttributeError, match="CalibratedClassifierCV"):
        machine.predict_proba(x)
    rows = x.numpy().reshape(len(x), -1)
    calibrated = CalibratedClassifierCV(CNTKClassifier(depth=2, image_shape=(1, 6, 8)), cv=3).fit(rows, y)
    unseen, labels = bars(120, "test")
    chances = calibrated.predict_proba(unseen.numpy().reshape(120, -1))
    assert np.allclose(chances.sum(1), 1)
    assert log_loss(labels, chances) < np.log(2), "better than not knowing"


def test_a_cntk_classifier_is_kernel_ridge_regression_on_its_gram_matrix():
    x, y = bars(30)
    unseen, _ = bars(10, "test")
    ours = CNTKClassifier(depth=2, ridge=1e-2, precision="double").fit(x, y)
    kernel = ConvKernel(depth=2)
    inner, outer = (kernel_gram(a, x, kernel=kernel, dtype=torch.float64) for a in (x, unseen))
    theirs = KernelRidge(alpha=1e-2, kernel="precomputed").fit(inner / inner.max(), np.eye(2)[y])
    expected = theirs.predict(outer / inner.max())
    assert np.allclose(ours.decision_function(unseen), expected[:, 1] - expected[:, 0], atol=1e-10)


def test_the_best_round_is_that_of_the_lowest_validation_error():
    x, y = bars(60)
    machine = ConvRFMClassifier(depth=2, rounds=3, patience=None).fit(x, y)
    errors = [r.error for r in machine.rounds_]
    assert len(errors) == 4
    assert machine.best_round_ == int(np.argmin(errors))
    assert torch.equal(machine.metric_, machine.rounds_[machine.best_round_].metric)
    assert machine.score(x, y) > 0.9


def test_given_validation_images_replace_the_split():
    x, y = bars(40)
    other, labels = bars(20, "choice")
    machine = ConvRFMClassifier(depth=2, rounds=1).fit(x, y, other, labels)
    assert len(machine.x_fit_) == 40
    with pytest.raises(InvalidInput, match="`y_val`"):
        ConvRFMClassifier(depth=2, rounds=1).fit(x, y, other, labels + 7)


def test_deep_machines_keep_the_layers_that_help():
    x, y = bars(50)
    machine = DeepConvRFMClassifier(depth=2, filters=8, rounds=1).fit(x, y)
    chosen = [layer.chosen.error for layer in machine.layers_]
    assert len(chosen) == 2
    assert machine.best_layer_ == int(np.argmin(chosen))
    assert len(machine.filters_) == machine.best_layer_


@pytest.mark.parametrize(
    "machine",
    [
        ConvRFMClassifier(solver="features", filters=16, rounds=2),
        DeepConvRFMClassifier(solver="features", filters=8, rounds=1, depth=2, readout="gap"),
    ],
)
def test_machines_of_drawn_features_learn_and_are_saved(machine, tmp_path):
    (x, y), (unseen, truth) = bars(120), bars(80, "test")
    machine = clone(machine).fit(x, y)
    assert machine.solver_ == "features"
    assert machine.score(unseen, truth) > 0.8
    assert len(machine.rounds_) > 1
    assert machine.metric_ is machine.rounds_[machine.best_round_].metric
    again = load_machine(save_machine(machine, tmp_path / "saved"))
    assert np.array_equal(again.decision_function(unseen), machine.decision_function(unseen))


def test_auto_takes_features_for_many_images_and_says_why(monkeypatch, capsys):
    x, y = bars(50)
    few = ConvRFMClassifier(depth=1, rounds=0).fit(x, y)
    assert few.solver_ == "exact"
    monkeypatch.setattr("firstlight.estimators.convrfm.EXACT_IMAGES", 40)
    many = ConvRFMClassifier(depth=1, rounds=0, filters=4, verbose=True).fit(x, y)
    assert (many.solver_, "with 50 images" in many.solver_reason_) == ("features", True)
    assert "Solver: features (with 50 images" in capsys.readouterr().out
    for change, why in ({"family": "laplace"}, "kernels on patches"), ({}, "rows without an image shape"):
        images = x if change else x.flatten(1).numpy()
        exact = ConvRFMClassifier(depth=1, rounds=0, **change).fit(images, y)
        assert (exact.solver_, why in exact.solver_reason_) == ("exact", True)


def test_patience_lets_a_round_that_is_worse_pass():
    x, y = bars(60)
    one, all_rounds = (
        ConvRFMClassifier(depth=1, rounds=3, patience=patience).fit(x, y) for patience in (1, None)
    )
    assert len(all_rounds.rounds_) == 4
    errors = [done.error for done in all_rounds.rounds_]
    assert all_rounds.best_round_ == errors.index(min(errors))
    worse = [i for i in range(1, 4) if errors[i] >= min(errors[:i])]
    assert len(one.rounds_) == (worse[0] + 1 if worse else 4)


def test_machines_clone_pickle_search_and_pipe():
    x, y = bars(40)
    rows = x.numpy().reshape(40, -1)
    machine = CNTKClassifier(image_shape=(1, 6, 8), depth=1)
    search = GridSearchCV(machine, {"ridge": [1e-5, 1e-2]}, cv=2).fit(rows, y)
    piped = make_pipeline(FunctionTransformer(np.abs), clone(machine)).fit(rows, y)
    again = pickle.loads(pickle.dumps(search.best_estimator_))
    assert np.array_equal(again.predict(rows), search.predict(rows))
    assert piped.predict(rows).shape == (40,)
    assert "CNTKClassifier" in machine._repr_html_()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"family": "cnk"}, "Did you mean 'cntk'"),
        ({"precision": "half"}, "precision"),
        ({"image_shape": (1, 5, 5)}, "`image_shape`"),
        ({"ridge": -1.0}, "`ridge`"),
    ],
)
def test_parameters_without_meaning_are_refused_in_fit(change, says):
    x, y = bars(20)
    with pytest.raises(InvalidInput, match=says):
        CNTKClassifier(depth=1).set_params(**change).fit(x.numpy().reshape(20, -1), y)
