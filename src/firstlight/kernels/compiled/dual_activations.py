"""The dual activations of the ReLU, κ₀ and κ₁, from the cosine of two patches.

Each function is written twice: by its definition, and for compiled code, in float32 and float64, in a form that the
processor's vectors can do.
"""

import math
from typing import no_type_check

import numpy as np
from numba import types
from numba.extending import overload

from firstlight.kernels.compiled.compiling import LOOSE, compiled

# With g = 1 - |ρ|: arccos |ρ| / π = g^(1/2) p(|ρ|) and κ₁(|ρ|) - |ρ| = g^(3/2) q(|ρ|), p and q smooth on [0, 1]; the
# compiler cannot vectorise the library's arccos. Polynomials: in float32 the best ones for the products (errors 3e-8
# and 8e-9), in float64 interpolation at Chebyshev nodes (6e-17 and 1e-16), coefficients computed in 40 digits.
_P32 = tuple(np.float32(a) for a in (
    0.499999972009, -0.0683064650534, 0.0282773409307, -0.0156600307174, 0.00883720876579, -0.00382079724208,
    0.000831335426788,
))  # fmt: skip
_Q32 = tuple(np.float32(a) for a in (
    0.318309878202, -0.0225342462406, 0.00596929238199, -0.00235584546056, 0.000938487427209, -0.000223631207296,
))  # fmt: skip
_P = (
    0.49999999999999994, -0.06830988618374995, 0.028345056903689086, -0.016167854825418236,
    0.010721082343777057, -0.007758532379498989, 0.005943057955200443, -0.004735126002480737,
    0.0038733349975128774, -0.003201777500060482, 0.0026045972891601287, -0.0019999611902253977,
    0.001372784235706719, -0.0007921360610044177, 0.00035917933563815355, -0.0001177844587744955,
    2.4545834527761545e-05, -2.4222154464628605e-06,
)  # fmt: skip
_Q = (
    0.3183098861837906, -0.022535170724259704, 0.005985979681851058, -0.002464709176493197,
    0.0012691628906363324, -0.0007481035337449549, 0.00048238957615865795, -0.00033082349320591285,
    0.00023525099635997356, -0.0001673639029964322, 0.00011277054973404655, -6.697279176131257e-05,
    3.227252288131511e-05, -1.1454357599410914e-05, 2.6056672009881418e-06, -2.813695167153694e-07,
)  # fmt: skip

_ONE32, _ZERO32, _INVERSE_PI32 = (np.float32(v) for v in (1, 0, 1 / math.pi))
_INVERSE_PI = 1 / math.pi
# 1 - cos below this is rounding of an inner product of equal patches: they count as identical.
SAME32, SAME64 = np.float32(2.5e-7), 1e-14
# Where 1 - cos is small, float32 loses digits of the angle. A weighted count of such positions tells which
# pairs must be done again in float64: nearly identical images, and pairs with many nearly identical patches.
NEAR32, NEAR64, NEARER32, NEARER64 = np.float32(6e-4), 6e-4, np.float32(2e-5), 2e-5
HEAVY32, HEAVY64 = np.float32(20), 20.0


@compiled
@no_type_check
def close_cosine_stride(lines, columns):
    """Of how many displacements, in each direction, one is searched for cosines close to 1; few leave none out."""
    # all of up to 4, every second of up to 8, every fourth of 13 and more
    return min(4, 1 + (min(lines, columns) - 1) // 4)


@no_type_check
def relu_duals(rho):
    """Return κ₀(ρ), κ₁(ρ), and a weight where |ρ| is close to 1."""
    gap = max(1.0 - abs(rho), 0.0)
    angle = math.acos(max(min(rho, 1.0), -1.0))
    kappa = 1 - angle / math.pi
    return kappa, rho * kappa + sine_over_pi(rho), HEAVY64 if gap < NEARER64 else float(gap < NEAR64)


@overload(relu_duals, jit_options={"fastmath": LOOSE}, inline="always")
@no_type_check
def _compiled_relu_duals(rho):
    if rho == types.float32:

        def single(rho):
            x = abs(rho)
            gap = _ONE32 - x
            gap = gap if gap > SAME32 else _ZERO32  # also where rounding made |ρ| exceed 1
            root = math.sqrt(gap)
            p = ((_P32[6] * x + _P32[5]) * x + _P32[4]) * x + _P32[3]
            p = ((p * x + _P32[2]) * x + _P32[1]) * x + _P32[0]
            q = (_Q32[5] * x + _Q32[4]) * x + _Q32[3]
            q = ((q * x + _Q32[2]) * x + _Q32[1]) * x + _Q32[0]
            angle = root * p
            close = _ONE32 if gap < NEAR32 else _ZERO32
            close = HEAVY32 if gap < NEARER32 else close
            kappa = _ONE32 - angle if rho >= _ZERO32 else angle
            return kappa, max(rho, _ZERO32) + root * gap * q, close

        return single

    def double(rho):
        x = abs(rho)
        gap = 1.0 - x
        gap = gap if gap > SAME64 else 0.0
        root = math.sqrt(gap)
        p = ((_P[17] * x + _P[16]) * x + _P[15]) * x + _P[14]
        p = ((p * x + _P[13]) * x + _P[12]) * x + _P[11]
        p = ((p * x + _P[10]) * x + _P[9]) * x + _P[8]
        p = ((p * x + _P[7]) * x + _P[6]) * x + _P[5]
        p = ((p * x + _P[4]) * x + _P[3]) * x + _P[2]
        p = (p * x + _P[1]) * x + _P[0]
        q = ((_Q[15] * x + _Q[14]) * x + _Q[13]) * x + _Q[12]
        q = ((q * x + _Q[11]) * x + _Q[10]) * x + _Q[9]
        q = ((q * x + _Q[8]) * x + _Q[7]) * x + _Q[6]
        q = ((q * x + _Q[5]) * x + _Q[4]) * x + _Q[3]
        q = ((q * x + _Q[2]) * x + _Q[1]) * x + _Q[0]
        angle = root * p
        close = 1.0 if gap < NEAR64 else 0.0
        close = HEAVY64 if gap < NEARER64 else close
        kappa = 1.0 - angle if rho >= 0.0 else angle
        return kappa, max(rho, 0.0) + root * gap * q, close

    return double


@no_type_check
def sine_over_pi(rho):
    """Return sin(arccos ρ) / π, 0 where the patches are identical or opposite."""
    return math.sqrt(max((1.0 - rho) * (1.0 + rho), 0.0)) / math.pi  # 1 - ρ² would lose digits near 1


@overload(sine_over_pi, jit_options={"fastmath": LOOSE}, inline="always")
@no_type_check
def _compiled_sine_over_pi(rho):
    if rho == types.float32:

        def single(rho):
            gap = _ONE32 - abs(rho)
            gap = gap if gap > SAME32 else _ZERO32
            return math.sqrt(gap) * math.sqrt(_ONE32 + abs(rho)) * _INVERSE_PI32

        return single

    def double(rho):
        gap = 1.0 - abs(rho)
        gap = gap if gap > SAME64 else 0.0
        return math.sqrt(gap) * math.sqrt(1.0 + abs(rho)) * _INVERSE_PI

    return double


@no_type_check
def kappa_zero_slope(sine):
    """Return κ₀' = 1 / (π sin θ) from sin θ / π, and 0 where the patches are identical or opposite."""
    return 1 / (math.pi**2 * sine) if sine > 0 else 0.0


_INVERSE_SQUARE32, _INVERSE_SQUARE = np.float32(1 / math.pi**2), 1 / math.pi**2


@overload(kappa_zero_slope, jit_options={"fastmath": LOOSE}, inline="always")
@no_type_check
def _compiled_kappa_zero_slope(sine):
    if sine == types.float32:

        def single(sine):
            is_finite = sine > _ZERO32
            return _INVERSE_SQUARE32 / (sine if is_finite else _ONE32) if is_finite else _ZERO32

        return single

    def double(sine):
        is_finite = sine > 0.0
        return _INVERSE_SQUARE / (sine if is_finite else 1.0) if is_finite else 0.0

    return double
