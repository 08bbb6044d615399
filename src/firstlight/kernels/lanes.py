"""The inner loops: many pairs of images side by side, one in each lane of the processor's vectors.

A block holds `LANES` pairs. All its arrays end in the lane axis, so every loop over lanes is one run of
vector instructions. The two running quantities of a layer, Σ and T (or their adjoints), lie beside each
other, so that one box sum serves both.
"""

import math
from typing import Any, no_type_check

import numba
import numpy as np
from numba import types
from numba.extending import overload

LANES = 32

# `no_type_check` also keeps run-time checks of shapes, which tests put on every function, out of compiled code.
# No `afn` and no `arcp`: square roots and quotients stay correctly rounded.
_LOOSE = {"contract", "reassoc", "nsz", "nnan", "ninf"}


def compiled(function: Any) -> Any:
    """Compile when first called; keep the machine code on disk where that is possible."""
    try:
        return numba.njit(fastmath=_LOOSE, nogil=True, cache=True)(function)
    except RuntimeError:  # neither the package's folder nor the user's cache folder can be written
        return numba.njit(fastmath=_LOOSE, nogil=True)(function)


# arccos x = sqrt(1 - x) p(x) on [0, 1], p by interpolation at Chebyshev nodes in 60 digits. Absolute errors
# 3e-8 (float32) and 5e-16 (float64); the compiler cannot vectorise the library's arccos.
_A = [np.float32(a) for a in (
    1.570796298215578, -0.21459815556457223, 0.08896885320062521, -0.050114303104553254,
    0.030722122418260587, -0.016841052415648962, 0.006491521428436943, -0.001211737769810765,
)]  # fmt: skip
_A0, _A1, _A2, _A3, _A4, _A5, _A6, _A7 = _A
_B = (
    1.5707963267948963, -0.21460183660242374, 0.08904862253421428, -0.05079281394384022,
    0.03368127352974124, -0.024374148326072563, 0.01867066721191609, -0.014875837063215488,
    0.012168440773078696, -0.010058680672619103, 0.00818258370918535, -0.006283063382676808,
    0.004312728869860108, -0.0024885688298950347, 0.0011283951621620858, -0.0003700307903930049,
    7.711301342864637e-05, -7.609614252019444e-06,
)  # fmt: skip
(_B0, _B1, _B2, _B3, _B4, _B5, _B6, _B7, _B8, _B9, _B10, _B11, _B12, _B13, _B14, _B15, _B16, _B17) = _B

_ONE32, _ZERO32, _PI32, _INVERSE_PI32 = (np.float32(v) for v in (1, 0, math.pi, 1 / math.pi))
_INVERSE_PI = 1 / math.pi
# 1 - cos below this is rounding of an inner product of equal patches: they count as identical.
SAME32, SAME64 = np.float32(2.5e-7), 1e-14
# Where 1 - cos is small, float32 loses digits of the angle. A weighted count of such positions tells which
# pairs must be done again in float64: nearly identical images, and pairs with many nearly identical patches.
NEAR32, NEAR64, NEARER32, NEARER64 = np.float32(6e-4), 6e-4, np.float32(2e-5), 2e-5
HEAVY32, HEAVY64 = np.float32(20), 20.0


@no_type_check
def _duals(rho):
    """Return κ₀(ρ), sin(arccos ρ) / π, and a weight where ρ is close to 1."""
    raise NotImplementedError


@overload(_duals, jit_options={"fastmath": _LOOSE}, inline="always")
@no_type_check
def _duals_for(rho):
    if rho == types.float32:

        def single(rho):
            x = min(abs(rho), _ONE32)
            gap = _ONE32 - x
            gap = gap if gap > SAME32 else _ZERO32
            p = _A7
            p = p * x + _A6
            p = p * x + _A5
            p = p * x + _A4
            p = p * x + _A3
            p = p * x + _A2
            p = p * x + _A1
            p = p * x + _A0
            root = math.sqrt(gap)
            angle = p * root
            angle = angle if rho >= _ZERO32 else _PI32 - angle
            sine = root * math.sqrt(_ONE32 + x)
            close = _ONE32 if gap < NEAR32 else _ZERO32
            close = HEAVY32 if gap < NEARER32 else close
            return _ONE32 - angle * _INVERSE_PI32, sine * _INVERSE_PI32, close

        return single

    def double(rho):
        x = min(abs(rho), 1.0)
        gap = 1.0 - x
        gap = gap if gap > SAME64 else 0.0
        p = _B17
        p = p * x + _B16
        p = p * x + _B15
        p = p * x + _B14
        p = p * x + _B13
        p = p * x + _B12
        p = p * x + _B11
        p = p * x + _B10
        p = p * x + _B9
        p = p * x + _B8
        p = p * x + _B7
        p = p * x + _B6
        p = p * x + _B5
        p = p * x + _B4
        p = p * x + _B3
        p = p * x + _B2
        p = p * x + _B1
        p = p * x + _B0
        root = math.sqrt(gap)
        angle = p * root
        angle = angle if rho >= 0.0 else math.pi - angle
        sine = root * math.sqrt(1.0 + x)
        close = 1.0 if gap < NEAR64 else 0.0
        close = HEAVY64 if gap < NEARER64 else close
        return 1.0 - angle * _INVERSE_PI, sine * _INVERSE_PI, close

    return double


@no_type_check
def _slope(sine):
    """Return κ₀' = 1 / (π sin θ) from sin θ / π, and 0 where the patches are identical or opposite."""
    raise NotImplementedError


_INVERSE_SQUARE32, _INVERSE_SQUARE = np.float32(1 / math.pi**2), 1 / math.pi**2


@overload(_slope, jit_options={"fastmath": _LOOSE}, inline="always")
@no_type_check
def _slope_for(sine):
    if sine == types.float32:

        def single(sine):
            there = sine > _ZERO32
            return _INVERSE_SQUARE32 / (sine if there else _ONE32) if there else _ZERO32

        return single

    def double(sine):
        there = sine > 0.0
        return _INVERSE_SQUARE / (sine if there else 1.0) if there else 0.0

    return double


@compiled
@no_type_check
def _sum_rows(source, first, last, row):
    """Sum of the lines `first` to `last` of `source`."""
    if last - first == 3:
        above, middle, below = source[first], source[first + 1], source[first + 2]
        for k in range(row.size):
            row[k] = above[k] + middle[k] + below[k]
        return
    row[:] = 0
    for i in range(first, last):
        line = source[i]
        for k in range(row.size):
            row[k] += line[k]


@compiled
@no_type_check
def _sum_columns(row, out, size, padding, lanes):
    """Sum of `size` neighbouring columns of one line, zeros outside."""
    if size == 3 and padding == 0:
        left, middle, right = row[: out.size], row[lanes : out.size + lanes], row[2 * lanes :]
        for k in range(out.size):
            out[k] = left[k] + middle[k] + right[k]
        return
    out[:] = 0
    for delta in range(size):
        shift = (delta - padding) * lanes
        start, stop = max(0, -shift), min(out.size, row.size - shift)
        if stop > start:
            part, shifted = out[start:stop], row[start + shift : stop + shift]
            for k in range(stop - start):
                part[k] += shifted[k]


@compiled
@no_type_check
def box_sums(source, target, size, padding, lanes, room):
    """Sums over windows of `size`, zeros outside, of `lanes` maps side by side; lines x (columns lanes)."""
    row = room[: source.shape[1]]
    for r in range(target.shape[0]):
        first = r - padding
        _sum_rows(source, max(first, 0), min(first + size, source.shape[0]), row)
        _sum_columns(row, target[r], size, padding, lanes)


# Rows of the arrays below are flat, slot after slot: with a separate slot axis LLVM's overlap checks fail at run
# time and the scalar loop is taken (six times slower).


@compiled
@no_type_check
def _activate(state, first, second, scale, bias, close):
    """Sums of Σ and T of the layer below, in place, to Σ and T of this layer."""
    for p in range(state.shape[0]):
        own, side = state[p], second[p]
        norm, inverse = first[p, 0], first[p, 1]
        for v in range(LANES):
            covariance = scale * own[v] + bias
            total = scale * own[v + LANES] + covariance
            rho = covariance * (inverse * side[v + LANES])
            kappa, sine, is_close = _duals(rho)
            own[v] = norm * side[v] * (rho * kappa + sine)
            own[v + LANES] = kappa * total
            close[v] += is_close


@compiled
@no_type_check
def _activate_taped(state, first, second, scale, bias, close, tape):
    """Like :func:`_activate`; keeps what the way back needs: ρ, κ₀, sin θ / π and Λ + T-sum."""
    for p in range(state.shape[0]):
        own, side, kept = state[p], second[p], tape[p]
        norm, inverse = first[p, 0], first[p, 1]
        for v in range(LANES):
            covariance = scale * own[v] + bias
            total = scale * own[v + LANES] + covariance
            rho = covariance * (inverse * side[v + LANES])
            kappa, sine, is_close = _duals(rho)
            own[v] = norm * side[v] * (rho * kappa + sine)
            own[v + LANES] = kappa * total
            close[v] += is_close
            kept[v] = rho
            kept[v + LANES] = kappa
            kept[v + 2 * LANES] = sine
            kept[v + 3 * LANES] = total


@compiled
@no_type_check
def _deactivate(adjoint, first, second, tape):
    """Adjoints of Σ, T and of the squared norm of the second image, in place, to those of Λ, U and it."""
    for p in range(adjoint.shape[0]):
        own, side, kept = adjoint[p], second[p], tape[p]
        norm, inverse = first[p, 0], first[p, 1]
        for v in range(LANES):
            to_sigma, to_tangent = own[v], own[v + LANES]
            kappa, sine, both = kept[v + LANES], kept[v + 2 * LANES], inverse * side[v + LANES]
            to_rho = to_tangent * kept[v + 3 * LANES] * _slope(sine)
            to_total = to_tangent * kappa
            to_covariance = to_sigma * kappa + to_total + to_rho * both
            there = both > 0  # a zero patch has neither value nor gradient
            own[v] = to_covariance if there else both
            own[v + LANES] = to_total if there else both
            own[v + 2 * LANES] += side[v + 2 * LANES] * (to_sigma * norm * side[v] * sine - to_rho * kept[v])


@compiled
@no_type_check
def climb(state, spare, row, first, second, sizes, filters, scales, close, tape):
    """All layers upwards; returns Σ and T of the last. An empty `tape` keeps nothing."""
    size, padding = filters
    start = 0
    layers = sizes.shape[0]
    for layer in range(layers):
        n = sizes[layer, 0] * sizes[layer, 1]
        here = state[:n]
        factor = scales[0] if layer == 0 else scales[1]
        if tape.size == 0:
            _activate(here, first[start : start + n], second[start : start + n], factor, scales[2], close)
        else:
            _activate_taped(
                here,
                first[start : start + n],
                second[start : start + n],
                factor,
                scales[2],
                close,
                tape[start : start + n],
            )
        start += n
        if layer + 1 < layers:
            h, w = sizes[layer + 1]
            box_sums(
                here.reshape(sizes[layer, 0], sizes[layer, 1] * 2 * LANES),
                spare[: h * w].reshape(h, w * 2 * LANES),
                size, padding, 2 * LANES, row,
            )  # fmt: skip
            state, spare = spare, state
    return state[:n]


@compiled
@no_type_check
def descend(adjoint, other, row, first, second, sizes, filters, scales, tape):
    """All layers downwards; returns the adjoints of the first layer's inner products and norms."""
    size, padding = filters
    layers = sizes.shape[0]
    start = tape.shape[0]
    for layer in range(layers - 1, -1, -1):
        n = sizes[layer, 0] * sizes[layer, 1]
        start -= n
        here = adjoint[:n]
        _deactivate(here, first[start : start + n], second[start : start + n], tape[start : start + n])
        if layer > 0:
            if scales[1] != 1:
                here *= scales[1]
            h, w = sizes[layer - 1]
            box_sums(
                here.reshape(sizes[layer, 0], sizes[layer, 1] * 3 * LANES),
                other[: h * w].reshape(h, w * 3 * LANES),
                size, size - 1 - padding, 3 * LANES, row,
            )  # fmt: skip
            adjoint, other = other, adjoint
    return adjoint[:n]


@compiled
@no_type_check
def add_sums(state, out, nngp):
    """Sum over positions; `out` is float64, for a thousand terms in float32 would cost a digit."""
    p = 0
    while p + 2 <= state.shape[0]:
        own, next = state[p], state[p + 1]
        if nngp:
            for v in range(LANES):
                out[v] += own[v] + next[v]
        else:
            for v in range(LANES):
                out[v] += (own[v] + own[v + LANES]) + (next[v] + next[v + LANES])
        p += 2
    if p < state.shape[0]:
        own = state[p]
        for v in range(LANES):
            out[v] += own[v] if nngp else own[v] + own[v + LANES]


@compiled
@no_type_check
def flatten_values(products, first, second, sizes, filters, scales, nngp, out, close):
    """Values of all pairs of a tile, as sums over the last layer's positions.

    Parameters
    ----------
    products : inner products of first-layer patches, position x image x lane.
    first : norm and inverse norm of every image of the tile, image x layers' positions x 2.
    second : norm, inverse norm and half its square of the lanes' images, layers' positions x 3 x lane.
    sizes, filters, scales : rows and columns of every layer; filter size and padding; factors of the first and
        of the later layers, and the bias variance.
    nngp : leave T out.
    out, close : value, and number of cosines close to 1, image x lane.
    """
    positions, images = products.shape[0], products.shape[1]
    state = np.empty((positions, 2 * LANES), products.dtype)
    spare = np.empty((positions, 2 * LANES), products.dtype)
    row = np.empty(np.max(sizes) * 2 * LANES, products.dtype)
    tape = np.empty((0, 4 * LANES), products.dtype)
    for i in range(images):
        _load(state, products[:, i])
        out[i] = 0
        close[i] = 0
        last = climb(state, spare, row, first[i], second, sizes, filters, scales, close[i], tape)
        add_sums(last, out[i], nngp)


@compiled
@no_type_check
def flatten_slopes(products, norms, first, second, sizes, filters, scales, nngp, weight, close):
    """Derivatives of all values of a tile; arguments as for :func:`flatten_values`.

    `products` is overwritten by the derivatives by the inner products, `norms`, of the same shape, by
    those by the squared norms of the lanes' patches.
    """
    positions, images = products.shape[0], products.shape[1]
    state = np.empty((positions, 2 * LANES), products.dtype)
    spare = np.empty((positions, 2 * LANES), products.dtype)
    row = np.empty(np.max(sizes) * 3 * LANES, products.dtype)
    tape = np.empty((first.shape[1], 4 * LANES), products.dtype)
    adjoint = np.empty((positions, 3 * LANES), products.dtype)
    other = np.empty((positions, 3 * LANES), products.dtype)
    for i in range(images):
        _load(state, products[:, i])
        close[i] = 0
        last = climb(state, spare, row, first[i], second, sizes, filters, scales, close[i], tape)
        n = last.shape[0]
        seed_adjoint(adjoint[:n], weight, nngp)
        down = descend(adjoint, other, row, first[i], second, sizes, filters, scales, tape)
        _unload(down, products[:, i], norms[:, i])


@compiled
@no_type_check
def seed_adjoint(adjoint, weight, nngp):
    """Derivatives of the value by Σ, T and the squared norm of the last layer."""
    adjoint[:, :LANES] = weight
    adjoint[:, LANES : 2 * LANES] = 0 if nngp else weight
    adjoint[:, 2 * LANES :] = 0


@compiled
@no_type_check
def _unload(adjoint, products, norms):
    for p in range(adjoint.shape[0]):
        own, first, second = adjoint[p], products[p], norms[p]
        for v in range(LANES):
            first[v] = own[v]
            second[v] = own[v + 2 * LANES]


@compiled
@no_type_check
def _load(state, products):
    for p in range(state.shape[0]):
        own, given = state[p], products[p]
        for v in range(LANES):
            own[v] = given[v]
        own[LANES:] = 0


@compiled
@no_type_check
def pair_values(products, sides, sizes, filters, scales, nngp, out):
    """Values of `LANES` arbitrary pairs.

    `products` is position x lane; `sides` holds the pairs' products of norms, of inverse norms, and half
    the inverse square of the second norm.
    """
    positions = products.shape[0]
    unit = np.ones((sides.shape[0], 2), products.dtype)
    state = np.empty((positions, 2 * LANES), products.dtype)
    spare = np.empty((positions, 2 * LANES), products.dtype)
    row = np.empty(np.max(sizes) * 2 * LANES, products.dtype)
    close = np.zeros(LANES, products.dtype)
    _load(state, products)
    out[:] = 0
    tape = np.empty((0, 4 * LANES), products.dtype)
    add_sums(climb(state, spare, row, unit, sides, sizes, filters, scales, close, tape), out, nngp)


@compiled
@no_type_check
def pair_slopes(products, norms, sides, sizes, filters, scales, nngp, weight):
    """Derivatives of `LANES` arbitrary pairs, written over `products` and into `norms`."""
    positions = products.shape[0]
    unit = np.ones((sides.shape[0], 2), products.dtype)
    state = np.empty((positions, 2 * LANES), products.dtype)
    spare = np.empty((positions, 2 * LANES), products.dtype)
    row = np.empty(np.max(sizes) * 3 * LANES, products.dtype)
    close = np.zeros(LANES, products.dtype)
    tape = np.empty((sides.shape[0], 4 * LANES), products.dtype)
    adjoint = np.empty((positions, 3 * LANES), products.dtype)
    other = np.empty((positions, 3 * LANES), products.dtype)
    _load(state, products)
    n = climb(state, spare, row, unit, sides, sizes, filters, scales, close, tape).shape[0]
    seed_adjoint(adjoint[:n], weight, nngp)
    down = descend(adjoint, other, row, unit, sides, sizes, filters, scales, tape)
    _unload(down, products, norms)
