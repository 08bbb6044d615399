"""The inner loops of gradients of pooled kernels: one displacement of the two images after the other."""

from typing import no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.layers import (
    LANES,
    climb_taped,
    descend,
    rooms,
    seed_adjoint,
)


@compiled
@no_type_check
def _line_products(first, second, shift, columns, r, lines, part, out):
    """Inner products of one line of patches, of all lines of pixels in them or, if they share lines, of one."""
    vector_loops()
    down, right = shift
    channels, shared = lines
    width = first.shape[1] // (LANES * channels * shared)
    for c in range(out.size // LANES):
        a = first[(r + max(0, -down)) * columns + c + max(0, -right)]
        b = second[(r + max(0, down)) * columns + c + max(0, right)]
        own = out[c * LANES : (c + 1) * LANES]
        own[:] = 0
        for channel in range(channels):
            start = (channel * shared + part) * width
            k = start
            while k + 3 <= start + width:
                a0, b0 = a[k * LANES : (k + 3) * LANES], b[k * LANES : (k + 3) * LANES]
                for v in range(LANES):
                    own[v] += (
                        a0[v] * b0[v] + a0[v + LANES] * b0[v + LANES] + a0[v + 2 * LANES] * b0[v + 2 * LANES]
                    )
                k += 3
            while k < start + width:
                a0, b0 = a[k * LANES : (k + 1) * LANES], b[k * LANES : (k + 1) * LANES]
                for v in range(LANES):
                    own[v] += a0[v] * b0[v]
                k += 1


@compiled
@no_type_check
def _shifted_products(first, second, shift, columns, lines, room, products, h, w):
    """Inner products of patches p of one image and p + shift of the other, on their overlap.

    Patches as they are in the image share their lines of pixels: `lines` holds the channels and the lines per
    patch, and a line is multiplied once for all patches that hold it. Transformed patches share nothing: 1 and 1.
    """
    vector_loops()
    shared, width = lines[1], w * LANES
    for r in range(h):
        _line_products(first, second, shift, columns, r, lines, 0, room[r, :width])
    for part in range(1, shared):
        _line_products(first, second, shift, columns, h - 1, lines, part, room[h - 1 + part, :width])
    flat = products[: h * w].reshape(h, width)
    for r in range(h):
        own = flat[r]
        own[:] = room[r, :width]
        for part in range(1, shared):
            line = room[r + part]
            for k in range(width):
                own[k] += line[k]


@compiled
@no_type_check
def _shifted_norms(first, second, shift, sizes, sides):
    """Products of the norms of all layers on the overlap; returns the overlaps' sizes."""
    vector_loops()
    down, right = shift
    overlaps = sizes - np.array([abs(down), abs(right)])
    start, out = 0, 0
    for layer in range(sizes.shape[0]):
        columns = sizes[layer, 1]
        for r in range(overlaps[layer, 0]):
            for c in range(overlaps[layer, 1]):
                a = first[start + (r + max(0, -down)) * columns + c + max(0, -right)]
                b = second[start + (r + max(0, down)) * columns + c + max(0, right)]
                own = sides[out]
                for v in range(2 * LANES):
                    own[v] = a[v] * b[v]
                for v in range(2 * LANES, 3 * LANES):
                    own[v] = b[v]
                out += 1
        start += sizes[layer, 0] * columns
    return overlaps


@compiled
@no_type_check
def _scatter_slopes(adjoint, first, second, shift, columns, out, h, w):
    """Add one displacement's gradients to those of the second image's patches."""
    vector_loops()
    down, right = shift
    d = first.shape[1] // LANES
    for r in range(h):
        for c in range(w):
            place = (r + max(0, down)) * columns + c + max(0, right)
            a = first[(r + max(0, -down)) * columns + c + max(0, -right)]
            b, target, own = second[place], out[place], adjoint[r * w + c]
            for k in range(d):
                x, y, g = a[k * LANES :], b[k * LANES :], target[k * LANES :]
                for v in range(LANES):
                    g[v] += own[v] * x[v] + (own[v + 2 * LANES] + own[v + 2 * LANES]) * y[v]


@compiled
@no_type_check
def pooled_slopes(
    first, second, lines, first_norms, second_norms, sizes, filters, scales, nngp, weight, out, close
):
    """Gradients of pooled kernels by the second images' patches, position x (entry lane), added to `out`.

    `close` receives the weighted shares of cosines close to 1, without and with a displacement.
    """
    vector_loops()
    products = np.empty((first.shape[0], LANES), first.dtype)
    product_lines = np.empty((sizes[0, 0] + lines[1], sizes[0, 1] * LANES), first.dtype)
    room, back = rooms(first.shape[0], sizes, 2, first), rooms(first.shape[0], sizes, 3, first)
    sides = np.empty((first_norms.shape[0], 3 * LANES), first.dtype)
    unit = np.ones((first_norms.shape[0], 2), first.dtype)
    near, positions = np.zeros((2, LANES), first.dtype), np.zeros(2, np.int64)
    tape = np.empty((first_norms.shape[0], 4 * LANES), first.dtype)
    last = sizes[sizes.shape[0] - 1]
    for down in range(1 - last[0], last[0]):
        for right in range(1 - last[1], last[1]):
            overlaps = _shifted_norms(first_norms, second_norms, (down, right), sizes, sides)
            h, w = overlaps[0]
            n, moved = np.sum(overlaps[:, 0] * overlaps[:, 1]), int(down != 0 or right != 0)
            kept = tape[:n]
            positions[moved] += n
            _shifted_products(first, second, (down, right), sizes[0, 1], lines, product_lines, products, h, w)
            n = len(climb_taped(products, 0, room, unit, sides, overlaps, filters, scales, near[moved], kept))
            seed_adjoint(back[0][:n], weight, nngp)
            slopes = descend(back, unit, sides, overlaps, filters, scales, kept)
            _scatter_slopes(slopes, first, second, (down, right), sizes[0, 1], out, h, w)
    for moved in range(2):
        for v in range(LANES):
            close[moved, v] = near[moved, v] / max(positions[moved], 1)
