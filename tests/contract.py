"""Checks of estimators by scikit-learn: all in the long run, otherwise those that every estimator must meet itself."""

import pytest
from sklearn.utils.estimator_checks import estimator_checks_generator

OWN = {
    "check_parameters_default_constructible",
    "check_no_attributes_set_in_init",
    "check_dont_overwrite_attributes",
    "check_dict_unchanged",
    "check_estimators_dtypes",
    "check_estimators_pickle",
    "check_fit_idempotent",
    "check_classifiers_one_label",
    "check_n_features_in_after_fitting",
}
"""How parameters are stored and what `fit` leaves behind; what comes in is read by code that estimators share."""


def contract(*estimators):
    """Parametrise a test over estimators and checks."""
    cases = [
        pytest.param(
            copy,
            check,
            id=f"{type(estimator).__name__}-{check.func.__name__}",
            marks=[] if check.func.__name__ in OWN else [pytest.mark.long],
        )
        for estimator in estimators
        for copy, check in estimator_checks_generator(estimator)
    ]
    return pytest.mark.parametrize(("estimator", "check"), cases)
