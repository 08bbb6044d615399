"""The inner loops: many pairs of images side by side, one in each lane of the processor's vectors.

A block holds `LANES` pairs. All its arrays end in the lane axis, so every loop over lanes is one run of
vector instructions. The two running quantities of a layer, Σ and T (or their adjoints), lie beside each
other, so that one box sum serves both.
"""

from typing import no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.dual_activations import duals, sine, slope

LANES = 32


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
            kappa, kappa_one, is_close = duals(covariance * (inverse * side[v + LANES]))
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
            kappa, kappa_one, is_close = duals(covariance * (inverse * side[v + LANES]))
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
            kappa, kappa_one, is_close = duals(covariance * (inverse * side[v + LANES]))
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
            kappa, kappa_one, is_close = duals(rho)
            own[v] = norm * side[v] * kappa_one
            own[v + LANES] = kappa * total
            close[v] += is_close
            kept[v] = rho
            kept[v + LANES] = kappa
            kept[v + 2 * LANES] = sine(rho)
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
            kappa, height, both = kept[v + LANES], kept[v + 2 * LANES], inverse * side[v + LANES]
            to_rho = to_tangent * kept[v + 3 * LANES] * slope(height)
            to_total = to_tangent * kappa
            to_covariance = to_sigma * kappa + to_total + to_rho * both
            there = both > 0  # a zero patch has neither value nor gradient
            own[v] = to_covariance if there else both
            own[v + LANES] = to_total if there else both
            own[v + 2 * LANES] += side[v + 2 * LANES] * (
                to_sigma * norm * side[v] * height - to_rho * kept[v]
            )


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
def _pixel_products(first, second, lines):
    """Inner products of the pixels of one image and of `LANES` others, line x (column lane)."""
    vector_loops()
    channels = second.shape[2] // LANES
    for r in range(lines.shape[0]):
        given, others, line = first[r], second[r], lines[r]
        for c in range(others.shape[0]):
            own, other = line[c * LANES : (c + 1) * LANES], others[c]
            if channels == 3:
                red, green, blue = given[3 * c], given[3 * c + 1], given[3 * c + 2]
                for v in range(LANES):
                    own[v] = red * other[v] + green * other[v + LANES] + blue * other[v + 2 * LANES]
            else:
                own[:] = 0
                for channel in range(channels):
                    value, plane = given[c * channels + channel], other[channel * LANES :]
                    for v in range(LANES):
                        own[v] += value * plane[v]


@compiled
@no_type_check
def pixel_values(pixels, others, window, room, first, second, sizes, filters, scales, nngp, out, close):
    """Values of all pairs of a tile, from pixels: products of pixels serve all patches that hold them.

    Parameters
    ----------
    pixels, others
        Image x line x (column channel), and line x column x (channel lane).
    window
        Side of the first layer's patches.
    room, first, second, sizes, filters, scales, nngp, out, close
        As for :func:`flatten_values`.
    """
    vector_loops()
    h, w = sizes[0]
    lines = np.empty((others.shape[0], others.shape[1] * LANES), pixels.dtype)
    row = np.empty(lines.shape[1], pixels.dtype)
    products = np.empty((h * w, LANES), pixels.dtype)
    for i in range(pixels.shape[0]):
        out[i] = 0
        close[i] = 0
        _pixel_products(pixels[i], others, lines)
        box_sums(lines, products.reshape(h, w * LANES), window, 0, LANES, row)
        last = climb(products, 0, room, first[i], second, sizes, filters, scales, close[i])
        add_sums(last, out[i], nngp)


@compiled
@no_type_check
def flatten_values(products, room, first, second, sizes, filters, scales, nngp, out, close):
    """Values of all pairs of a tile, as sums over the last layer's positions.

    Parameters
    ----------
    products
        Inner products of first-layer patches, position x image x lane.
    room
        For :func:`climb`.
    first
        Norm and inverse norm of every image of the tile, image x layers' positions x 2.
    second
        Norm, inverse norm and half its square of the lanes' images, layers' positions x 3 x lane.
    sizes, filters, scales
        Rows and columns of every layer; filter size and padding; factors of the first and of the later
        layers, and the bias variance.
    nngp
        Leave T out.
    out, close
        Value, and number of cosines close to 1, image x lane.
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
