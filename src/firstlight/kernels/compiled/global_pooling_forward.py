"""The inner loops of pooled kernels: `PAIRS` pairs of images side by side, line after line.

Everything is a line of numbers, column after column, the pairs side by side within a column. So each loop runs over a
whole line without a gap, whatever the width of the processor's vectors, and few pairs fill it. Eight pairs leave all
that a displacement needs in the second cache.
"""

from typing import Any, no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.dual_activations import close_cosine_stride, relu_duals

PAIRS = 8
SLACK = 32  # numbers behind every line, so that loops which run over several vectors at once need no end of their own


@compiled
@no_type_check
def _shifted_products(first, second, shift, lines):
    """Inner products of pixels or patches p of one image and p + shift of the other, on their overlap.

    Images are entry x line x (column pair): channels of pixels, or entries of patches.
    """
    vector_loops()
    # p and p + τ both lie inside: p from max(0, -τ) on, and p + τ from max(0, τ) on, in either direction
    first_line, second_line = max(0, -shift[0]), max(0, shift[0])
    first_column, second_column = max(0, -shift[1]) * PAIRS, max(0, shift[1]) * PAIRS
    entries, n = first.shape[0], first.shape[2] - abs(shift[1]) * PAIRS
    for r in range(first.shape[1] - abs(shift[0])):
        products = lines[r]
        # three entries at a time, the channels of a pixel; what three does not divide comes first and initialises
        begun = entries % 3
        if begun == 0:
            products[:n] = 0
        else:
            x0, z0 = first[0, r + first_line, first_column:], second[0, r + second_line, second_column:]
            for k in range(n):
                products[k] = x0[k] * z0[k]
        if begun == 2:
            x0, z0 = first[1, r + first_line, first_column:], second[1, r + second_line, second_column:]
            for k in range(n):
                products[k] += x0[k] * z0[k]
        for e in range(begun, entries, 3):
            x0, z0 = first[e, r + first_line, first_column:], second[e, r + second_line, second_column:]
            x1, z1 = (
                first[e + 1, r + first_line, first_column:],
                second[e + 1, r + second_line, second_column:],
            )
            x2, z2 = (
                first[e + 2, r + first_line, first_column:],
                second[e + 2, r + second_line, second_column:],
            )
            for k in range(n):
                products[k] += x0[k] * z0[k] + x1[k] * z1[k] + x2[k] * z2[k]


def _layer_loop(counts: bool) -> Any:
    """Compile the loop of a layer, with or without the count of cosines close to 1, an eighth of its time."""

    @compiled
    @no_type_check
    def forward_layer(layer_below, norms, rows, state, near, layer, shift, filters, factors):
        """Σ and T of a layer on the overlap of two images, from those of the layer below it.

        Parameters
        ----------
        layer_below
            Lines of its Σ and of its T; no lines of T in the first layer.
        norms
            Of the two images: norms, then their inverses, x (position pair).
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
        (sigmas, tangents), (first_norms, second_norms) = layer_below, norms
        start, lines, columns = layer
        size, padding = filters
        factor, bias = factors
        first_line, second_line = max(0, -shift[0]), max(0, shift[0])
        first_column, second_column = max(0, -shift[1]), max(0, shift[1])
        n = (columns - abs(shift[1])) * PAIRS
        wide, margin = n + (size - 1 - 2 * padding) * PAIRS, padding * PAIRS
        # whole vectors only: the slack behind every line takes what is too much, and the loop has no scalar end
        even = (wide + SLACK - 1) // SLACK * SLACK
        zeros, has_tangents = rows[4], tangents.shape[0] > 0
        rows[0, :margin] = 0
        rows[1, : margin if has_tangents else rows.shape[1]] = 0
        for r in range(lines - abs(shift[0])):
            above, last = max(r - padding, 0), min(r - padding + size, sigmas.shape[0])
            # Σ, T → their sums over lines, zero outside the overlap.
            # Written out, for calls from line to line would cost as much as a short line.
            sigma_sums, tangent_sums = rows[0], rows[1]
            sigma_row, tangent_row = sigma_sums[margin:], tangent_sums[margin:]
            if last - above == 3:
                l0, l1, l2 = sigmas[above], sigmas[above + 1], sigmas[above + 2]
                for k in range(even):
                    sigma_row[k] = l0[k] + l1[k] + l2[k]
                if has_tangents:
                    m0, m1, m2 = tangents[above], tangents[above + 1], tangents[above + 2]
                    for k in range(even):
                        tangent_row[k] = m0[k] + m1[k] + m2[k]
            else:
                sigma_row[:wide] = 0
                tangent_row[:wide] = 0
                for i in range(above, last):
                    line = sigmas[i]
                    for k in range(wide):
                        sigma_row[k] += line[k]
                    if has_tangents:
                        line = tangents[i]
                        for k in range(wide):
                            tangent_row[k] += line[k]
            if margin > 0:  # the slack of the line before lies where the right padding belongs
                sigma_row[wide : wide + margin] = 0
                tangent_row[wide : wide + margin] = 0
            # sums over lines → over columns: for the usual size of 3 two more addends in the loop below, zeros for 1
            s1, s2, t1, t2 = zeros, zeros, zeros, zeros
            if size == 3:
                s1, s2 = sigma_sums[PAIRS:], sigma_sums[2 * PAIRS :]
                t1, t2 = tangent_sums[PAIRS:], tangent_sums[2 * PAIRS :]
            elif size != 1:
                sigma_boxes, tangent_boxes = rows[2], rows[3]
                sigma_boxes[:n] = 0
                tangent_boxes[:n] = 0
                for delta in range(size):
                    line, tangent_line = sigma_sums[delta * PAIRS :], tangent_sums[delta * PAIRS :]
                    for k in range(n):
                        sigma_boxes[k] += line[k]
                    for k in range(n):
                        tangent_boxes[k] += tangent_line[k]
                sigma_sums, tangent_sums = sigma_boxes, tangent_boxes
            # norms at p of the first image and at p + τ of the second
            first_start = (start + (r + first_line) * columns + first_column) * PAIRS
            second_start = (start + (r + second_line) * columns + second_column) * PAIRS
            x_norm, x_inverse = (
                first_norms[0, first_start : first_start + n],
                first_norms[1, first_start : first_start + n],
            )
            z_norm, z_inverse = (
                second_norms[0, second_start : second_start + n],
                second_norms[1, second_start : second_start + n],
            )
            sigma, tangent = state[0, r], state[1, r]
            for k in range(n):
                # ΣδΣ, ΣδT → Λ, Λ + U → ρ → Σ = √(Λ(x,x) Λ(z,z)) κ₁(ρ), T = κ₀(ρ) (Λ + U)
                covariance = factor * (sigma_sums[k] + s1[k] + s2[k]) + bias
                total = factor * (tangent_sums[k] + t1[k] + t2[k]) + covariance
                kappa, kappa_one, is_close = relu_duals(covariance * (x_inverse[k] * z_inverse[k]))
                sigma[k] = x_norm[k] * z_norm[k] * kappa_one
                tangent[k] = kappa * total
                if counts:
                    near[k] += is_close

    return forward_layer


_forward_layer, _forward_layer_counting = _layer_loop(counts=False), _layer_loop(counts=True)


@compiled
@no_type_check
def _forward_layers(lines, window, shift, norms, layers, buffers, counts, near):
    """All layers upwards from lines of inner products; returns Σ and T of the last. Counts close cosines if asked."""
    rows, state, next_state = buffers
    if layers.padding == 0:  # a line is not needed any more once the lines from it on are summed
        next_state = state
    no_tangents = lines[:0]
    sizes, scales = layers.sizes, layers.scales
    start = 0
    for layer in range(sizes.shape[0]):
        positions = (start, sizes[layer, 0], sizes[layer, 1])
        if layer == 0:
            # products of pixels → of patches by the same loop: a box sum over the window, which holds its padding
            layer_below, reach, factor = (lines, no_tangents), (window, 0), scales[0]
        else:
            held = sizes[layer - 1, 0] - abs(shift[0])
            layer_below, factor = (state[0, :held], state[1, :held]), scales[1]
            reach = (layers.filter_size, layers.padding)
        factors = (factor, scales[2])
        if counts:
            _forward_layer_counting(
                layer_below, norms, rows, next_state, near, positions, shift, reach, factors
            )
        else:
            _forward_layer(layer_below, norms, rows, next_state, near, positions, shift, reach, factors)
        state, next_state = next_state, state
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
            sigmas, tangents = sigma[c * PAIRS : (c + 1) * PAIRS], tangent[c * PAIRS : (c + 1) * PAIRS]
            if nngp:
                for v in range(PAIRS):
                    out[v] += sigmas[v]
            else:
                for v in range(PAIRS):
                    out[v] += sigmas[v] + tangents[v]


@compiled
@no_type_check
def _allocate_buffers(height, width, padding, like):
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
def pooled_sums(first, second, window, norms, layers, out, still, close):
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
    layers
        The kernel.
    out, still
        Receive the sums, and the part of them without displacement.
    close
        Receives the weighted shares of cosines close to 1: without displacement, where nearly identical images show,
        and with one, where images with the same plain surface do. Of the displacements, every few are looked at.
    """
    height, width = first.shape[1], first.shape[2] // PAIRS
    lines = np.zeros((height, width * PAIRS + SLACK), first.dtype)
    buffers = _allocate_buffers(height, width, layers.padding, first)
    sizes = layers.sizes
    near, positions = np.zeros((2, width * PAIRS), first.dtype), np.zeros(2, np.int64)
    out[:] = 0
    h, w = sizes[sizes.shape[0] - 1]
    step = close_cosine_stride(h, w)
    # K = Σ_τ Σ_p (Σ + T)[p, p + τ], τ over all displacements of the last layer's positions: each is a flatten kernel
    # of its own, so the memory is that of one displacement
    for line_shift in range(1 - h, h):
        for column_shift in range(1 - w, w):
            shift = (line_shift, column_shift)
            counts = line_shift % step == 0 and column_shift % step == 0
            moved = int(line_shift != 0 or column_shift != 0)
            _shifted_products(first, second, shift, lines)
            held = lines[: height - abs(line_shift)]
            state = _forward_layers(held, window, shift, norms, layers, buffers, counts, near[moved])
            if counts:
                positions[moved] += _overlap(sizes, shift)
            if moved:
                _add_sums(state, h - abs(line_shift), w - abs(column_shift), layers.nngp, out)
            else:
                # apart, for on the diagonal of a Gram matrix a closed form takes the place of this part
                still[:] = 0
                _add_sums(state, h, w, layers.nngp, still)
                out += still
    for moved in range(2):
        _fold(near[moved], positions[moved], close[moved])
