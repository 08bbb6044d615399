"""The loops that prepare images: norms of patches in every layer, inner products of single pairs.

Images lie side by side in the last axis, so every inner loop runs over images without a gap.
"""

from typing import no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.layers import box_sums


@compiled
@no_type_check
def square_norms(patches, out):
    """Squared norms of patches, position x image, summed in float64 whatever the patches are."""
    vector_loops()
    for p in range(patches.shape[0]):
        total = out[p]
        total[:] = 0
        for k in range(patches.shape[1]):
            line = patches[p, k]
            for v in range(total.size):
                # a relative error of the norm is one of every cosine: float64 costs little here, once per image
                total[v] += np.float64(line[v]) * np.float64(line[v])


@compiled
@no_type_check
def layer_squares(squares, sizes, filters, scale, bias):
    """Fill the squared norms of all layers, position x image, from those of the first layer's patches."""
    vector_loops()
    size, padding = filters
    n = squares.shape[1]
    room = np.empty(np.max(sizes) * n)
    norms_below, start = squares[: sizes[0, 0] * sizes[0, 1]], sizes[0, 0] * sizes[0, 1]
    norms_below += bias
    for layer in range(1, sizes.shape[0]):
        h, w = sizes[layer]
        norms = squares[start : start + h * w]
        box_sums(
            norms_below.reshape(sizes[layer - 1, 0], sizes[layer - 1, 1] * n), norms.reshape(h, w * n), size, padding,
            n, room,
        )  # fmt: skip
        for p in range(h * w):
            line = norms[p]
            for v in range(n):
                # κ₁(1) = 1: Σ(x,x) = Λ(x,x), and the norms of a layer follow from those below alone
                line[v] = scale * line[v] + bias
        norms_below, start = norms, start + h * w


@compiled
@no_type_check
def own_sums(squares, sizes, filters, scale, nngp, out):
    """Sums of K(x, x) over the last positions: every cosine is 1, so T grows by Λ in every layer."""
    vector_loops()
    size, padding = filters
    n = squares.shape[1]
    room = np.empty(np.max(sizes) * n)
    start = sizes[0, 0] * sizes[0, 1]
    tangent = squares[:start].copy()
    for layer in range(1, sizes.shape[0]):
        h, w = sizes[layer]
        boxes = np.empty((h * w, n))
        box_sums(
            tangent.reshape(sizes[layer - 1, 0], sizes[layer - 1, 1] * n), boxes.reshape(h, w * n), size, padding, n,
            room,
        )  # fmt: skip
        # ρ = 1: κ₀ = κ₁ = 1, so Σ = Λ and T = Λ + (σ_w²/q²) ΣδT
        tangent = scale * boxes + squares[start : start + h * w]
        start += h * w
    out[:] = 0
    last = squares[start - tangent.shape[0] : start]
    for p in range(tangent.shape[0]):
        for v in range(n):
            out[v] += last[p, v] + (0.0 if nngp else tangent[p, v])


@compiled
@no_type_check
def pair_products(first, second, i, j, out):
    """Inner products of the patches of the images i[v] and j[v], position x lane."""
    vector_loops()
    for p in range(out.shape[0]):
        own = out[p]
        own[:] = 0
        for k in range(first.shape[1]):
            a, b = first[p, k], second[p, k]
            for v in range(i.size):
                own[v] += a[i[v]] * b[j[v]]


@compiled
@no_type_check
def add_gradients(by_product, by_norm, first, second, i, j, alpha, points, inner):
    """Add the gradients of single pairs, for all outputs, to those at their points, position x (output entry) x point.

    The two parts of a gradient cancel where the images are nearly equal: they are added in float64.
    """
    vector_loops()
    d, n = first.shape[1], i.size
    gradient = np.empty((d, n))
    for p in range(first.shape[0]):
        for e in range(d):
            for v in range(n):
                # s̄ x_i[p] + 2 n̄ z_j[p]
                gradient[e, v] = by_product[p, v] * first[p, e, i[v]] + 2 * by_norm[p, v] * second[p, e, j[v]]
        for output in range(alpha.shape[1]):
            for e in range(d):
                own = inner[p, output * d + e]
                for v in range(n):
                    own[points[v]] += alpha[v, output] * gradient[e, v]
