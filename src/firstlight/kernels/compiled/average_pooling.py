"""The inner loops of kernels with average pooling between layers: all pairs of positions of two images.

Layers up to a pooling form a stage. A convolution keeps the displacement of two lines of positions, so a stage works
through one displacement after the other, on strips of blocks that stay in the cache: a block holds all pairs of
positions of one line of the first image and one of the second. Only what comes out of a pooling is held for all.
"""

from typing import no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.dual_activations import duals, looks


@compiled
@no_type_check
def _block_products(first, second, out):
    """Inner products of two lines of patches, entry x column each."""
    vector_loops()
    w = second.shape[1]
    for c in range(w):
        own = out[c * w : (c + 1) * w]
        own[:] = 0
        k = 0
        while k + 3 <= first.shape[0]:
            a, b, d = first[k, c], first[k + 1, c], first[k + 2, c]
            x, y, z = second[k], second[k + 1], second[k + 2]
            for v in range(w):
                own[v] += a * x[v] + b * y[v] + d * z[v]
            k += 3
        while k < first.shape[0]:
            a, x = first[k, c], second[k]
            for v in range(w):
                own[v] += a * x[v]
            k += 1


@compiled
@no_type_check
def _block_sums(strip, start, stop, size, padding, width, room, out):
    """Sums over common offsets: of the blocks `start` to `stop`, then along the diagonals of their sum."""
    vector_loops()
    w = out.size
    w = int(np.sqrt(w))
    total = room[: width * width]
    total[:] = 0
    for k in range(start, stop):
        block = strip[k]
        for v in range(width * width):
            total[v] += block[v]
    out[:] = 0
    for c in range(w):
        for delta in range(size):
            shift = delta - padding
            if 0 <= c + shift < width:
                left, right = max(0, -shift), min(w, width - shift)
                own = out[c * w + left : c * w + right]
                given = total[(c + shift) * width + left + shift : (c + shift) * width + right + shift]
                for v in range(right - left):
                    own[v] += given[v]


@compiled
@no_type_check
def _activate_block(sigma, tangent, first, second, scale, bias):
    """Sums of Σ and T of the layer below, in place, to Σ and T of this layer; sides are norms, then their inverses."""
    vector_loops()
    w = second.size // 2
    norms, inverses = second[:w], second[w:]
    for c in range(w):
        own, other = sigma[c * w : (c + 1) * w], tangent[c * w : (c + 1) * w]
        norm, inverse = first[c], first[c + w]
        for v in range(w):
            covariance = scale * own[v] + bias
            kappa, kappa_one, _ = duals(covariance * (inverse * inverses[v]))
            there = inverse * inverses[v] > 0  # a zero patch has no value
            own[v] = norm * norms[v] * kappa_one
            other[v] = kappa * (scale * other[v] + covariance) if there else inverse * inverses[v]


@compiled
@no_type_check
def _close_cosines(sigma, first, second, scale, bias):
    """Weight of cosines close to 1 among equal columns."""
    w = second.size // 2
    close = 0.0
    for c in range(w):
        close += duals((scale * sigma[c * w + c] + bias) * (first[c + w] * second[c + w]))[2]
    return close


@compiled
@no_type_check
def _close_pairs(sigma, first, second, scale, bias, step):
    """Weight of cosines close to 1 among every few columns of the first image with all of the second."""
    vector_loops()
    w = second.size // 2
    inverses = second[w:]
    close = scale * 0
    for c in range(0, w, step):
        own, inverse = sigma[c * w : (c + 1) * w], first[c + w]
        for v in range(w):
            close += duals((scale * own[v] + bias) * (inverse * inverses[v]))[2]
    return close


@compiled
@no_type_check
def _pool_block(block, width, out, weight):
    """Add a block to the block of pairs of windows that it belongs to."""
    vector_loops()
    w = width // 2
    for c in range(2 * w):
        own, given = out[c // 2 * w : (c // 2 + 1) * w], block[c * width : (c + 1) * width]
        for v in range(w):
            own[v] += weight * (given[2 * v] + given[2 * v + 1])


@compiled
@no_type_check
def _finish(strips, count, width, corner, pools, maps, nngp):
    """Pool a strip of blocks into `maps`, or return the sum of the last layer's."""
    total = 0.0
    sigma, tangent = strips
    for k in range(count):
        if pools:
            r, q = (corner[0] + k) // 2, (corner[1] + k) // 2
            if r < maps[0].shape[0] and q < maps[0].shape[1]:
                weight = sigma.dtype.type(0.0625)
                _pool_block(sigma[k], width, maps[0][r, q], weight)
                _pool_block(tangent[k], width, maps[1][r, q], weight)
        else:
            for v in range(width * width):
                total += np.float64(sigma[k, v])
            if not nngp:
                for v in range(width * width):
                    total += np.float64(tangent[k, v])
    return total


@compiled
@no_type_check
def stage(patches, below, sides, sizes, height, filters, scales, rooms, above, nngp):
    """One stage of layers; returns the sum over all pairs of positions (if nothing is pooled) and close cosines.

    Of cosines close to 1, it returns the weight at equal positions, the weight on displaced lines, some of which are
    searched, and the number of cosines searched there.

    Parameters
    ----------
    patches
        Of both images, line x entry x column, for the first stage; else of no line.
    below
        Σ and T of all pairs of pooled positions, line x line x (column column), for the later stages.
    sides
        Of both images, for every line of this stage's layers its norms, then their inverses. Flat: of an array with
        two axes a part of a line has no known stride, and the loops would not become vector instructions.
    sizes
        Lines and columns of this stage's layers.
    height
        Lines and columns of `below`.
    filters, scales
        Filter size and padding; factors of the first and of the later layers, and the bias variance.
    rooms
        Two pairs of strips and a block.
    above
        Where pooled Σ and T go, zeros; of no line after the last layer.
    nngp
        Leave T out.
    """
    size, padding = filters
    first_side, second_side = sides
    here, there, room = rooms
    begins = patches[0].shape[0] > 0
    last, total, still, moved, searched = sizes[sizes.shape[0] - 1, 0], 0.0, 0.0, 0.0, 0
    step = looks(last, sizes[sizes.shape[0] - 1, 1])
    for down in range(1 - last, last):
        top, left = max(0, -down), max(0, down)
        h, w, offset = height[0], height[1], 0
        source, target = here, there
        if not begins:
            for k in range(h - abs(down)):
                source[0][k, : w * w] = below[0][top + k, left + k]
                source[1][k, : w * w] = below[1][top + k, left + k]
        for layer in range(sizes.shape[0]):
            rows, columns = sizes[layer]
            factor = scales[0] if begins and layer == 0 else scales[1]
            for k in range(rows - abs(down)):
                sigma, tangent = target[0][k, : columns * columns], target[1][k, : columns * columns]
                if begins and layer == 0:
                    _block_products(patches[0][top + k], patches[1][left + k], sigma)
                    tangent[:] = 0
                else:
                    start, stop = max(0, k - padding), min(h - abs(down), k - padding + size)
                    _block_sums(source[0], start, stop, size, padding, w, room, sigma)
                    _block_sums(source[1], start, stop, size, padding, w, room, tangent)
                one, two = offset + (top + k) * 2 * columns, offset + (left + k) * 2 * columns
                a, b = first_side[one : one + 2 * columns], second_side[two : two + 2 * columns]
                if down == 0:
                    still += _close_cosines(sigma, a, b, factor, scales[2])
                elif down % step == 0:
                    moved += _close_pairs(sigma, a, b, factor, scales[2], step)
                    searched += (columns + step - 1) // step * columns
                _activate_block(sigma, tangent, a, b, factor, scales[2])
            source, target = target, source
            offset += 2 * rows * columns
            h, w = rows, columns
        total += _finish(source, h - abs(down), w, (top, left), above[0].shape[0] > 0, above, nngp)
    return total, still, moved, searched
