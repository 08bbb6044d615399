"""The inner loops of gradients of pooled kernels: one displacement of the two images after the other."""

from typing import no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.layers import (
    LANES,
    Layers,
    allocate_buffers,
    backward_layers,
    forward_layers_recorded,
    last_layer_adjoints,
)


@compiled
@no_type_check
def _line_products(first, second, shift, columns, r, lines, part, out):
    """Inner products of one line of patches, of all lines of pixels in them or, if they share lines, of one."""
    vector_loops()
    first_line, second_line = max(0, -shift[0]), max(0, shift[0])
    first_column, second_column = max(0, -shift[1]), max(0, shift[1])
    channels, shared = lines
    width = first.shape[1] // (LANES * channels * shared)
    for c in range(out.size // LANES):
        patch = first[(r + first_line) * columns + c + first_column]
        other_patch = second[(r + second_line) * columns + c + second_column]
        products = out[c * LANES : (c + 1) * LANES]
        products[:] = 0
        for channel in range(channels):
            start = (channel * shared + part) * width
            k = start
            while k + 3 <= start + width:
                x, z = patch[k * LANES : (k + 3) * LANES], other_patch[k * LANES : (k + 3) * LANES]
                for v in range(LANES):
                    products[v] += (
                        x[v] * z[v] + x[v + LANES] * z[v + LANES] + x[v + 2 * LANES] * z[v + 2 * LANES]
                    )
                k += 3
            while k < start + width:
                x, z = patch[k * LANES : (k + 1) * LANES], other_patch[k * LANES : (k + 1) * LANES]
                for v in range(LANES):
                    products[v] += x[v] * z[v]
                k += 1


@compiled
@no_type_check
def _shifted_patch_products(first, second, shift, columns, lines, room, products, h, w):
    """Inner products of patches p of one image and p + shift of the other, on their overlap.

    Patches as they are in the image share their lines of pixels: `lines` holds the channels and the lines per
    patch, and a line is multiplied once for all patches that hold it. Transformed patches share nothing: 1 and 1.
    """
    vector_loops()
    shared, width = lines[1], w * LANES
    # room[r] is the product of line r of pixels with its counterpart: the first line of patch r, the second of patch
    # r - 1, and so on. Patches of the last line alone bring the lines below.
    for r in range(h):
        _line_products(first, second, shift, columns, r, lines, 0, room[r, :width])
    for part in range(1, shared):
        _line_products(first, second, shift, columns, h - 1, lines, part, room[h - 1 + part, :width])
    flat = products[: h * w].reshape(h, width)
    for r in range(h):
        products_of_line = flat[r]
        products_of_line[:] = room[r, :width]
        for part in range(1, shared):
            line = room[r + part]
            for k in range(width):
                products_of_line[k] += line[k]


@compiled
@no_type_check
def _shifted_norms(first_norms, second_norms, shift, sizes, norms):
    """Products of the norms of all layers on the overlap; returns the overlaps' sizes."""
    vector_loops()
    first_line, second_line = max(0, -shift[0]), max(0, shift[0])
    first_column, second_column = max(0, -shift[1]), max(0, shift[1])
    overlaps = sizes - np.array([abs(shift[0]), abs(shift[1])])
    start, position = 0, 0
    for layer in range(sizes.shape[0]):
        columns = sizes[layer, 1]
        for r in range(overlaps[layer, 0]):
            for c in range(overlaps[layer, 1]):
                x = first_norms[start + (r + first_line) * columns + c + first_column]
                z = second_norms[start + (r + second_line) * columns + c + second_column]
                both = norms[position]
                # slots 0 and 1: N = |x||z| and 1/N; slot 2 is 1/(2 Λ(z,z)), of the second image alone
                for v in range(2 * LANES):
                    both[v] = x[v] * z[v]
                for v in range(2 * LANES, 3 * LANES):
                    both[v] = z[v]
                position += 1
        start += sizes[layer, 0] * columns
    return overlaps


@compiled
@no_type_check
def _scatter_gradients(adjoint, first, second, shift, columns, out, h, w):
    """Add one displacement's gradients to those of the second image's patches."""
    vector_loops()
    first_line, second_line = max(0, -shift[0]), max(0, shift[0])
    first_column, second_column = max(0, -shift[1]), max(0, shift[1])
    d = first.shape[1] // LANES
    for r in range(h):
        for c in range(w):
            position = (r + second_line) * columns + c + second_column
            patch = first[(r + first_line) * columns + c + first_column]
            other_patch, gradients, adjoints = second[position], out[position], adjoint[r * w + c]
            for k in range(d):
                x, z, gradient = patch[k * LANES :], other_patch[k * LANES :], gradients[k * LANES :]
                for v in range(LANES):
                    # s = ⟨x[p], z[p+τ]⟩, n = ‖z[p+τ]‖²: s̄, n̄ → s̄ x[p] + 2 n̄ z[p+τ], the gradient by z[p+τ]
                    gradient[v] += (
                        adjoints[v] * x[v] + (adjoints[v + 2 * LANES] + adjoints[v + 2 * LANES]) * z[v]
                    )


@compiled
@no_type_check
def pooled_pair_gradients(first, second, lines, first_norms, second_norms, layers, weight, out, close):
    """Gradients of pooled kernels by the second images' patches, position x (entry lane), added to `out`.

    `close` receives the weighted shares of cosines close to 1, without and with a displacement.
    """
    vector_loops()
    sizes = layers.sizes
    products = np.empty((first.shape[0], LANES), first.dtype)
    product_lines = np.empty((sizes[0, 0] + lines[1], sizes[0, 1] * LANES), first.dtype)
    buffers = allocate_buffers(first.shape[0], sizes, 2, first)
    adjoint_buffers = allocate_buffers(first.shape[0], sizes, 3, first)
    norms = np.empty((first_norms.shape[0], 3 * LANES), first.dtype)
    unit = np.ones((first_norms.shape[0], 2), first.dtype)
    near, positions = np.zeros((2, LANES), first.dtype), np.zeros(2, np.int64)
    saved_activations = np.empty((first_norms.shape[0], 4 * LANES), first.dtype)
    last = sizes[sizes.shape[0] - 1]
    # K = Σ_τ K_τ with K_τ the flatten kernel on the overlap at the displacement τ: there and back for one τ after the
    # other, so that no more is saved for the way back than one displacement needs
    for line_shift in range(1 - last[0], last[0]):
        for column_shift in range(1 - last[1], last[1]):
            shift = (line_shift, column_shift)
            overlaps = _shifted_norms(first_norms, second_norms, shift, sizes, norms)
            h, w = overlaps[0]
            n = np.sum(overlaps[:, 0] * overlaps[:, 1])
            moved, saved = int(line_shift != 0 or column_shift != 0), saved_activations[:n]
            positions[moved] += n
            _shifted_patch_products(first, second, shift, sizes[0, 1], lines, product_lines, products, h, w)
            overlap = Layers(overlaps, layers.filter_size, layers.padding, layers.scales, layers.nngp)
            values = forward_layers_recorded(products, 0, buffers, unit, norms, overlap, near[moved], saved)
            last_layer_adjoints(adjoint_buffers[0][: len(values)], weight, layers.nngp)
            adjoint = backward_layers(adjoint_buffers, unit, norms, overlap, saved)
            _scatter_gradients(adjoint, first, second, shift, sizes[0, 1], out, h, w)
    for moved in range(2):
        for v in range(LANES):
            close[moved, v] = near[moved, v] / max(positions[moved], 1)
