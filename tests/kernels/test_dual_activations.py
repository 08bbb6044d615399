"""The forms for vectors against the definitions, all the way from opposite to identical patches."""

import numba
import numpy as np
import pytest

from firstlight.kernels.compiled.dual_activations import (
    NEAR64,
    NEARER64,
    SAME32,
    SAME64,
    kappa_zero_slope,
    relu_duals,
    sine_over_pi,
)


@numba.njit
def in_compiled_code(rho):
    found = np.empty((rho.size, 5), rho.dtype)
    for k in range(rho.size):
        found[k, 0], found[k, 1], found[k, 2] = relu_duals(rho[k])
        found[k, 3] = sine_over_pi(rho[k])
        found[k, 4] = kappa_zero_slope(found[k, 3])
    return found


@pytest.mark.parametrize(
    ("dtype", "same", "bound"), [(np.float64, SAME64, 1e-15), (np.float32, SAME32, 1.5e-7)]
)
def test_compiled_forms_equal_the_definitions(dtype, same, bound):
    inner = np.linspace(-1, 1, 4001)
    near = 1 - np.geomspace(1e-1, 4 * same, 200)
    rho = np.unique(np.concatenate([inner, near, -near])).astype(dtype)
    rho = rho[1 - np.abs(rho.astype(np.float64)) > 2 * same]
    found = in_compiled_code(rho)
    exact = np.array(
        [(*relu_duals(r), sine_over_pi(r), kappa_zero_slope(sine_over_pi(r))) for r in rho.astype(np.float64)]
    )
    assert np.abs(found[:, [0, 1, 3]] - exact[:, [0, 1, 3]]).max() < bound
    assert np.abs(found[:, 4] / exact[:, 4] - 1).max() < 4 * bound
    gap = 1 - np.abs(rho.astype(np.float64))
    clear = np.min(np.abs(gap[:, None] - [NEAR64, NEARER64]), 1) > 1e-7
    np.testing.assert_array_equal(found[clear, 2], exact[clear, 2])


@pytest.mark.parametrize(("dtype", "same"), [(np.float64, SAME64), (np.float32, SAME32)])
def test_what_rounding_cannot_tell_from_equal_is_equal(dtype, same):
    rho = np.array([1, 1 + same, 1 - same / 2], dtype)
    found = in_compiled_code(np.concatenate([rho, -rho]))
    assert (found[:3, 0] == 1).all()
    assert (found[3:, :2] == 0).all()
    np.testing.assert_array_equal(found[:3, 1], rho)
    assert (found[:, 3:] == 0).all()
