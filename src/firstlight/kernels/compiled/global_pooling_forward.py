"""The inner loops of pooled kernels: `PAIRS` pairs of images side by side, line after line.

Everything is a line of numbers, column after column, the pairs side by side within a column. So each loop runs over a
whole line without a gap, whatever the width of the processor's vectors, and few pairs fill it. Eight pairs leave all
that a displacement needs in the second cache.
"""

from typing import Any, no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.dual_activations import duals, looks

PAIRS = 8
SLACK = 32  # numbers behind every line, so that loops which run over several vectors at once need no end of their own


@compiled
@no_type_check
def _plane_products(first, second, shift, lines):
    """Inner products of pixels or patches p of one image and p + shift of the other, on their overlap.

    Images are entry x line x (column pair): channels of pixels, or entries of patches.
    """
    vector_loops()
    down, right = shift
    top, bottom = max(0, -down), max(0, down)
    left, across = max(0, -right) * PAIRS, max(0, right) * PAIRS
    entries, n = first.shape[0], first.shape[2] - abs(right) * PAIRS
    for r in range(first.shape[1] - abs(down)):
        own = lines[r]
        begun = entries % 3
        if begun == 0:
            own[:n] = 0
        else:
            a, b = first[0, r + top, left:], second[0, r + bottom, across:]
            for k in range(n):
                own[k] = a[k] * b[k]
        if begun == 2:
            a, b = first[1, r + top, left:], second[1, r + bottom, across:]
            for k in range(n):
                own[k] += a[k] * b[k]
        for e in range(begun, entries, 3):
            a0, b0 = first[e, r + top, left:], second[e, r + bottom, across:]
            a1, b1 = first[e + 1, r + top, left:], second[e + 1, r + bottom, across:]
            a2, b2 = first[e + 2, r + top, left:], second[e + 2, r + bottom, across:]
            for k in range(n):
                own[k] += a0[k] * b0[k] + a1[k] * b1[k] + a2[k] * b2[k]


def _layer_loop(counts: bool) -> Any:
    """Compile the loop of a layer, with or without the count of cosines close to 1, an eighth of its time."""

    @compiled
    @no_type_check
    def climb_layer(sigmas, tangents, first, second, rows, state, near, layer, shift, filters, factors):
        """Σ and T of a layer on the overlap of two images, from those of the layer below it.

        Parameters
        ----------
        sigmas, tangents
            Lines of Σ and T of the layer below; no lines of T in the first layer.
        first, second
            Norms of the two images, then their inverses, x (position pair).
        rows
            Room for five lines, the last of them zeros.
        state
            Receives the lines of Σ and of T.
        near
            Receives the weights of cosines close to 1, column after column.
        layer
            First position of the layer in the norms; its lines and columns.
        shift
            Of the second image.
        filters
            Size and padding of the window.
        factors
            Of the sums, and the bias variance.
        """
        vector_loops()
        start, lines, columns = layer
        down, right = shift
        size, padding = filters
        factor, bias = factors
        top, bottom = max(0, -down), max(0, down)
        left, across = max(0, -right), max(0, right)
        n = (columns - abs(right)) * PAIRS
        wide, margin = n + (size - 1 - 2 * padding) * PAIRS, padding * PAIRS
        even = (wide + SLACK - 1) // SLACK * SLACK
        zeros, has_tangents = rows[4], tangents.shape[0] > 0
        rows[0, :margin] = 0
        rows[1, : margin if has_tangents else rows.shape[1]] = 0
        for r in range(lines - abs(down)):
            above, last = max(r - padding, 0), min(r - padding + size, sigmas.shape[0])
            # written out, for calls from line to line would cost as much as a short line
            sums, more = rows[0], rows[1]
            own, other = sums[margin:], more[margin:]
            if last - above == 3:
                l0, l1, l2 = sigmas[above], sigmas[above + 1], sigmas[above + 2]
                for k in range(even):
                    own[k] = l0[k] + l1[k] + l2[k]
                if has_tangents:
                    m0, m1, m2 = tangents[above], tangents[above + 1], tangents[above + 2]
                    for k in range(even):
                        other[k] = m0[k] + m1[k] + m2[k]
            else:
                own[:wide] = 0
                other[:wide] = 0
                for i in range(above, last):
                    line = sigmas[i]
                    for k in range(wide):
                        own[k] += line[k]
                    if has_tangents:
                        line = tangents[i]
                        for k in range(wide):
                            other[k] += line[k]
            if margin > 0:
                own[wide : wide + margin] = 0
                other[wide : wide + margin] = 0
            s1, s2, t1, t2 = zeros, zeros, zeros, zeros
            if size == 3:
                s1, s2, t1, t2 = sums[PAIRS:], sums[2 * PAIRS :], more[PAIRS:], more[2 * PAIRS :]
            elif size != 1:
                all_sums, all_more = rows[2], rows[3]
                all_sums[:n] = 0
                all_more[:n] = 0
                for delta in range(size):
                    line, tangent_line = sums[delta * PAIRS :], more[delta * PAIRS :]
                    for k in range(n):
                        all_sums[k] += line[k]
                    for k in range(n):
                        all_more[k] += tangent_line[k]
                sums, more = all_sums, all_more
            here = (start + (r + top) * columns + left) * PAIRS
            there = (start + (r + bottom) * columns + across) * PAIRS
            a, a_inverse = first[0, here : here + n], first[1, here : here + n]
            b, b_inverse = second[0, there : there + n], second[1, there : there + n]
            sigma, tangent = state[0, r], state[1, r]
            for k in range(n):
                covariance = factor * (sums[k] + s1[k] + s2[k]) + bias
                total = factor * (more[k] + t1[k] + t2[k]) + covariance
                kappa, kappa_one, is_close = duals(covariance * (a_inverse[k] * b_inverse[k]))
                sigma[k] = a[k] * b[k] * kappa_one
                tangent[k] = kappa * total
                if counts:
                    near[k] += is_close

    return climb_layer


_climb_layer, _climb_layer_counting = _layer_loop(counts=False), _layer_loop(counts=True)


@compiled
@no_type_check
def _climb(lines, window, shift, norms, sizes, filters, scales, room, counts, near):
    """All layers upwards from lines of inner products; returns Σ and T of the last. Counts close cosines if asked."""
    rows, state, spare = room
    if filters[1] == 0:  # a line is not needed any more once the lines from it on are summed
        spare = state
    no_tangents = lines[:0]
    start = 0
    for layer in range(sizes.shape[0]):
        here = (start, sizes[layer, 0], sizes[layer, 1])
        if layer == 0:
            sigmas, tangents, reach, factor = lines, no_tangents, (window, 0), scales[0]
        else:
            held = sizes[layer - 1, 0] - abs(shift[0])
            sigmas, tangents, reach, factor = state[0, :held], state[1, :held], filters, scales[1]
        first, second = norms
        factors = (factor, scales[2])
        if counts:
            _climb_layer_counting(
                sigmas, tangents, first, second, rows, spare, near, here, shift, reach, factors
            )
        else:
            _climb_layer(sigmas, tangents, first, second, rows, spare, near, here, shift, reach, factors)
        state, spare = spare, state
        start += sizes[layer, 0] * sizes[layer, 1]
    return state


@compiled
@no_type_check
def _add_sums(state, lines, columns, nngp, out):
    """Sum over positions; `out` is float64, for a thousand terms in float32 would cost a digit."""
    vector_loops()
    for r in range(lines):
        sigma, tangent = state[0, r], state[1, r]
        for c in range(columns):
            a, b = sigma[c * PAIRS : (c + 1) * PAIRS], tangent[c * PAIRS : (c + 1) * PAIRS]
            if nngp:
                for v in range(PAIRS):
                    out[v] += a[v]
            else:
                for v in range(PAIRS):
                    out[v] += a[v] + b[v]


@compiled
@no_type_check
def _rooms(height, width, padding, like):
    """Room for five padded lines, one of them zeros, and for two states: Σ and T, lines x (column pair)."""
    rows = np.zeros((5, (width + 2 * padding) * PAIRS + SLACK), like.dtype)
    state = np.zeros((2, height, width * PAIRS + SLACK), like.dtype)
    return rows, state, np.zeros_like(state)


@compiled
@no_type_check
def _overlap(sizes, shift):
    """Number of positions of all layers that two images share, one of them displaced."""
    total = 0
    for layer in range(sizes.shape[0]):
        total += (sizes[layer, 0] - abs(shift[0])) * (sizes[layer, 1] - abs(shift[1]))
    return total


@compiled
@no_type_check
def _fold(near, positions, out):
    """Sum over columns, as a share of all positions."""
    out[:] = 0
    for c in range(near.size // PAIRS):
        for v in range(PAIRS):
            out[v] += near[c * PAIRS + v] / max(positions, 1)


@compiled
@no_type_check
def pooled_sums(first, second, window, norms, sizes, filters, scales, nngp, out, still, close):
    """Sums over all pairs of last-layer positions, for `PAIRS` pairs of images.

    A box sum never changes the displacement of two positions, so the pooled kernel is a sum over displacements of the
    flatten kernel on the overlap.

    Parameters
    ----------
    first, second
        Entry x line x (column pair): channels of pixels, of which patches of `window` x `window` are compared, or
        entries of patches, with a `window` of 1.
    norms
        Of the first and the second images: norms, then their inverses, x (position pair), both 0 for zero patches.
    sizes, filters, scales
        Rows and columns of every layer; filter size and padding; factors of the first and of the later layers, and the
        bias variance.
    nngp
        Leave T out.
    out, still
        Receive the sums, and the part of them without displacement.
    close
        Receives the weighted shares of cosines close to 1: without displacement, where nearly identical images show,
        and with one, where images with the same plain surface do. Of the displacements, every few are looked at.
    """
    height, width = first.shape[1], first.shape[2] // PAIRS
    lines = np.zeros((height, width * PAIRS + SLACK), first.dtype)
    room = _rooms(height, width, filters[1], first)
    near, positions = np.zeros((2, width * PAIRS), first.dtype), np.zeros(2, np.int64)
    out[:] = 0
    h, w = sizes[sizes.shape[0] - 1]
    step = looks(h, w)
    for down in range(1 - h, h):
        for right in range(1 - w, w):
            shift = (down, right)
            counts, moved = down % step == 0 and right % step == 0, int(down != 0 or right != 0)
            _plane_products(first, second, shift, lines)
            held = lines[: height - abs(down)]
            state = _climb(held, window, shift, norms, sizes, filters, scales, room, counts, near[moved])
            if counts:
                positions[moved] += _overlap(sizes, shift)
            if moved:
                _add_sums(state, h - abs(down), w - abs(right), nngp, out)
            else:
                still[:] = 0
                _add_sums(state, h, w, nngp, still)
                out += still
    for moved in range(2):
        _fold(near[moved], positions[moved], close[moved])
