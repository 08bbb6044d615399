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
from numba.extending import intrinsic, overload

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


@intrinsic
@no_type_check
def vector_loops(_context):
    """Promise that the calling function's arrays do not overlap, and let it use the widest vectors there are.

    Without the promise LLVM compiles every loop twice and runs out of registers. Where a processor has vectors of 512
    bits it stays at 256, for fear of a lower clock in code that needs them now and then; these loops do nothing else.
    """

    def generate(context, builder, _signature, _arguments):
        for argument in builder.function.args:
            if argument.type.is_pointer:
                argument.add_attribute("noalias")
        attributes = builder.function.attributes
        if isinstance(attributes, set):  # llvmlite's own `add` knows only attributes without a value
            set.add(attributes, '"prefer-vector-width"="512"')
        return context.get_dummy_value()

    return types.void(), generate


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


@no_type_check
def _duals(rho):
    """Return κ₀(ρ), κ₁(ρ), and a weight where |ρ| is close to 1."""
    raise NotImplementedError


@overload(_duals, jit_options={"fastmath": _LOOSE}, inline="always")
@no_type_check
def _duals_for(rho):
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
def _sine(rho):
    """Return sin(arccos ρ) / π, 0 where the patches are identical or opposite."""
    raise NotImplementedError


@overload(_sine, jit_options={"fastmath": _LOOSE}, inline="always")
@no_type_check
def _sine_for(rho):
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
    vector_loops()
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
    vector_loops()
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
    vector_loops()
    row = room[: source.shape[1]]
    for r in range(target.shape[0]):
        first = r - padding
        _sum_rows(source, max(first, 0), min(first + size, source.shape[0]), row)
        _sum_columns(row, target[r], size, padding, lanes)


# Rows of the arrays below are flat, slot after slot: with a separate slot axis LLVM's overlap checks fail at run
# time and the scalar loop is taken (six times slower).


@compiled
@no_type_check
def _activate_products(products, column, target, first, second, scale, bias, close):
    """Σ and T of the first layer from inner products, `LANES` columns of `products` from `column` on."""
    vector_loops()
    for p in range(target.shape[0]):
        given, own, side = products[p, column : column + LANES], target[p], second[p]
        norm, inverse = first[p, 0], first[p, 1]
        for v in range(LANES):
            covariance = scale * given[v] + bias
            kappa, kappa_one, is_close = _duals(covariance * (inverse * side[v + LANES]))
            own[v] = norm * side[v] * kappa_one
            own[v + LANES] = kappa * covariance
            close[v] += is_close


@compiled
@no_type_check
def _activate_threes(row, target, first, second, scale, bias, close):
    """Σ and T of a line of positions, from the line below them (summed over lines) summed over three columns."""
    vector_loops()
    for p in range(target.shape[0]):
        given, own, side = row[2 * LANES * p : 2 * LANES * (p + 3)], target[p], second[p]
        norm, inverse = first[p, 0], first[p, 1]
        for v in range(LANES):
            sigmas = given[v] + given[v + 2 * LANES] + given[v + 4 * LANES]
            tangents = given[v + LANES] + given[v + 3 * LANES] + given[v + 5 * LANES]
            covariance = scale * sigmas + bias
            kappa, kappa_one, is_close = _duals(covariance * (inverse * side[v + LANES]))
            own[v] = norm * side[v] * kappa_one
            own[v + LANES] = kappa * (scale * tangents + covariance)
            close[v] += is_close


@compiled
@no_type_check
def _activate(state, first, second, scale, bias, close):
    """Sums of Σ and T of the layer below, in place, to Σ and T of this layer."""
    vector_loops()
    for p in range(state.shape[0]):
        own, side = state[p], second[p]
        norm, inverse = first[p, 0], first[p, 1]
        for v in range(LANES):
            covariance = scale * own[v] + bias
            total = scale * own[v + LANES] + covariance
            kappa, kappa_one, is_close = _duals(covariance * (inverse * side[v + LANES]))
            own[v] = norm * side[v] * kappa_one
            own[v + LANES] = kappa * total
            close[v] += is_close


@compiled
@no_type_check
def _activate_taped(state, first, second, scale, bias, close, tape):
    """Like :func:`_activate`; keeps what the way back needs: ρ, κ₀, sin θ / π and Λ + T-sum."""
    vector_loops()
    for p in range(state.shape[0]):
        own, side, kept = state[p], second[p], tape[p]
        norm, inverse = first[p, 0], first[p, 1]
        for v in range(LANES):
            covariance = scale * own[v] + bias
            total = scale * own[v + LANES] + covariance
            rho = covariance * (inverse * side[v + LANES])
            kappa, kappa_one, is_close = _duals(rho)
            own[v] = norm * side[v] * kappa_one
            own[v + LANES] = kappa * total
            close[v] += is_close
            kept[v] = rho
            kept[v + LANES] = kappa
            kept[v + 2 * LANES] = _sine(rho)
            kept[v + 3 * LANES] = total


@compiled
@no_type_check
def _deactivate(adjoint, first, second, tape):
    """Adjoints of Σ, T and of the squared norm of the second image, in place, to those of Λ, U and it."""
    vector_loops()
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
def climb(products, column, room, first, second, sizes, filters, scales, close):
    """All layers upwards, line by line; returns Σ and T of the last.

    `room` holds two states, position x (slot lane), and a line.
    """
    vector_loops()
    state, spare, row = room
    size, padding = filters
    n = sizes[0, 0] * sizes[0, 1]
    _activate_products(products, column, state[:n], first, second, scales[0], scales[2], close)
    start = n
    for layer in range(1, sizes.shape[0]):
        below = state[:n].reshape(sizes[layer - 1, 0], sizes[layer - 1, 1] * 2 * LANES)
        h, w = sizes[layer]
        for r in range(h):
            line, top, p = spare[r * w : (r + 1) * w], r - padding, start + r * w
            sums = row[: below.shape[1]]
            _sum_rows(below, max(top, 0), min(top + size, below.shape[0]), sums)
            if size == 3 and padding == 0:
                _activate_threes(sums, line, first[p : p + w], second[p : p + w], scales[1], scales[2], close)
            else:
                _sum_columns(sums, line.reshape(w * 2 * LANES), size, padding, 2 * LANES)
                _activate(line, first[p : p + w], second[p : p + w], scales[1], scales[2], close)
        state, spare = spare, state
        n = h * w
        start += n
    return state[:n]


@compiled
@no_type_check
def climb_taped(products, column, room, first, second, sizes, filters, scales, close, tape):
    """Like :func:`climb`, layer by layer; `tape` keeps what :func:`descend` needs."""
    vector_loops()
    state, spare, row = room
    size, padding = filters
    n = sizes[0, 0] * sizes[0, 1]
    _load(products, column, state[:n])
    start = 0
    for layer in range(sizes.shape[0]):
        if layer > 0:
            h, w = sizes[layer]
            box_sums(
                state[:n].reshape(sizes[layer - 1, 0], sizes[layer - 1, 1] * 2 * LANES),
                spare[: h * w].reshape(h, w * 2 * LANES),
                size, padding, 2 * LANES, row,
            )  # fmt: skip
            state, spare = spare, state
            n = h * w
        here = slice(start, start + n)
        factor = scales[0] if layer == 0 else scales[1]
        _activate_taped(state[:n], first[here], second[here], factor, scales[2], close, tape[here])
        start += n
    return state[:n]


@compiled
@no_type_check
def descend(room, first, second, sizes, filters, scales, tape):
    """All layers downwards; returns the adjoints of the first layer's inner products and norms.

    `room` holds the adjoints of the last layer, as much space again, and a line.
    """
    vector_loops()
    adjoint, other, row = room
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
    vector_loops()
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
def flatten_values(products, room, first, second, sizes, filters, scales, nngp, out, close):
    """Values of all pairs of a tile, as sums over the last layer's positions.

    Parameters
    ----------
    products : inner products of first-layer patches, position x image x lane.
    room : for :func:`climb`.
    first : norm and inverse norm of every image of the tile, image x layers' positions x 2.
    second : norm, inverse norm and half its square of the lanes' images, layers' positions x 3 x lane.
    sizes, filters, scales : rows and columns of every layer; filter size and padding; factors of the first and
        of the later layers, and the bias variance.
    nngp : leave T out.
    out, close : value, and number of cosines close to 1, image x lane.
    """
    vector_loops()
    images = products.shape[1]
    flat = products.reshape(products.shape[0], images * LANES)
    for i in range(images):
        out[i] = 0
        close[i] = 0
        last = climb(flat, i * LANES, room, first[i], second, sizes, filters, scales, close[i])
        add_sums(last, out[i], nngp)


@compiled
@no_type_check
def flatten_slopes(products, norms, first, second, sizes, filters, scales, nngp, weight, close):
    """Derivatives of all values of a tile; arguments as for :func:`flatten_values`.

    `products` is overwritten by the derivatives by the inner products, `norms`, of the same shape, by
    those by the squared norms of the lanes' patches.
    """
    vector_loops()
    images = products.shape[1]
    flat = products.reshape(products.shape[0], images * LANES)
    flat_norms = norms.reshape(products.shape[0], images * LANES)
    room, back = rooms(products.shape[0], sizes, 2, products), rooms(products.shape[0], sizes, 3, products)
    tape = np.empty((first.shape[1], 4 * LANES), products.dtype)
    for i in range(images):
        close[i] = 0
        n = len(climb_taped(flat, i * LANES, room, first[i], second, sizes, filters, scales, close[i], tape))
        seed_adjoint(back[0][:n], weight, nngp)
        down = descend(back, first[i], second, sizes, filters, scales, tape)
        _unload(down, i * LANES, flat, flat_norms)


@compiled
@no_type_check
def seed_adjoint(adjoint, weight, nngp):
    """Derivatives of the value by Σ, T and the squared norm of the last layer."""
    vector_loops()
    adjoint[:, :LANES] = weight
    adjoint[:, LANES : 2 * LANES] = 0 if nngp else weight
    adjoint[:, 2 * LANES :] = 0


@compiled
@no_type_check
def rooms(positions, sizes, slots, like):
    """Two states of `slots` running quantities, position x (slot lane), and one line of them."""
    vector_loops()
    state = np.empty((positions, slots * LANES), like.dtype)
    return state, np.empty_like(state), np.empty(np.max(sizes) * slots * LANES, like.dtype)


@compiled
@no_type_check
def _load(products, column, state):
    vector_loops()
    for p in range(state.shape[0]):
        own, given = state[p], products[p, column : column + LANES]
        for v in range(LANES):
            own[v] = given[v]
        own[LANES:] = 0


@compiled
@no_type_check
def _unload(adjoint, column, products, norms):
    vector_loops()
    for p in range(adjoint.shape[0]):
        own = adjoint[p]
        first, second = products[p, column : column + LANES], norms[p, column : column + LANES]
        for v in range(LANES):
            first[v] = own[v]
            second[v] = own[v + 2 * LANES]


@compiled
@no_type_check
def pair_values(products, sides, sizes, filters, scales, nngp, out):
    """Values of `LANES` arbitrary pairs.

    `products` is position x lane; `sides` holds the pairs' products of norms, of inverse norms, and half
    the inverse square of the second norm.
    """
    vector_loops()
    unit = np.ones((sides.shape[0], 2), products.dtype)
    room = rooms(products.shape[0], sizes, 2, products)
    close = np.zeros(LANES, products.dtype)
    out[:] = 0
    add_sums(climb(products, 0, room, unit, sides, sizes, filters, scales, close), out, nngp)


@compiled
@no_type_check
def pair_slopes(products, norms, sides, sizes, filters, scales, nngp, weight):
    """Derivatives of `LANES` arbitrary pairs, written over `products` and into `norms`."""
    vector_loops()
    unit = np.ones((sides.shape[0], 2), products.dtype)
    room, back = rooms(products.shape[0], sizes, 2, products), rooms(products.shape[0], sizes, 3, products)
    close = np.zeros(LANES, products.dtype)
    tape = np.empty((sides.shape[0], 4 * LANES), products.dtype)
    n = len(climb_taped(products, 0, room, unit, sides, sizes, filters, scales, close, tape))
    seed_adjoint(back[0][:n], weight, nngp)
    _unload(descend(back, unit, sides, sizes, filters, scales, tape), 0, products, norms)
