"""The inner loops of kernels with average pooling between layers: all pairs of positions of two images.

Layers up to a pooling form a stage. A convolution keeps the displacement of two lines of positions, so a stage works
through one displacement after the other, on strips of blocks that stay in the cache: a block holds all pairs of
positions of one line of the first image and one of the second. Only what comes out of a pooling is held for all.
"""

from typing import no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.dual_activations import close_cosine_stride, relu_duals


@compiled
@no_type_check
def _block_products(first, second, out):
    """Inner products of two lines of patches, entry x column each."""
    vector_loops()
    w = second.shape[1]
    for c in range(w):
        products = out[c * w : (c + 1) * w]
        products[:] = 0
        k = 0
        # three entries at a time, the channels of a pixel: a third of the passes over the products
        while k + 3 <= first.shape[0]:
            x0, x1, x2 = first[k, c], first[k + 1, c], first[k + 2, c]
            z0, z1, z2 = second[k], second[k + 1], second[k + 2]
            for v in range(w):
                products[v] += x0 * z0[v] + x1 * z1[v] + x2 * z2[v]
            k += 3
        while k < first.shape[0]:
            x0, z0 = first[k, c], second[k]
            for v in range(w):
                products[v] += x0 * z0[v]
            k += 1


@compiled
@no_type_check
def _block_sums(strip, start, stop, size, padding, width, room, out):
    """Sums over common offsets: of the blocks `start` to `stop`, then along the diagonals of their sum."""
    vector_loops()
    w = out.size
    w = int(np.sqrt(w))
    # Σ_δ Σ[p+δ, p'+δ]: the same offset on both sides. Over lines it leads from block to block of the strip...
    total = room[: width * width]
    total[:] = 0
    for k in range(start, stop):
        block = strip[k]
        for v in range(width * width):
            total[v] += block[v]
    out[:] = 0
    # ... and over columns from (c, c') to (c + δ, c' + δ), the diagonal of a block
    for c in range(w):
        for delta in range(size):
            shift = delta - padding
            if 0 <= c + shift < width:
                begin, end = max(0, -shift), min(w, width - shift)
                sums = out[c * w + begin : c * w + end]
                shifted = total[(c + shift) * width + begin + shift : (c + shift) * width + end + shift]
                for v in range(end - begin):
                    sums[v] += shifted[v]


@compiled
@no_type_check
def _block_activation(sigma, tangent, first, second, scale, bias):
    """Sums of Σ and T of the layer below, in place, to Σ and T of this layer; sides are norms, then their inverses."""
    vector_loops()
    w = second.size // 2
    norms, inverses = second[:w], second[w:]
    for c in range(w):
        sigmas, tangents = sigma[c * w : (c + 1) * w], tangent[c * w : (c + 1) * w]
        norm, inverse = first[c], first[c + w]
        for v in range(w):
            # ΣδΣ → Λ → ρ → Σ, and T = κ₀(ρ) (Λ + (σ_w²/q²) ΣδT)
            covariance = scale * sigmas[v] + bias
            kappa, kappa_one, _ = relu_duals(covariance * (inverse * inverses[v]))
            has_value = inverse * inverses[v] > 0  # a zero patch has no value
            sigmas[v] = norm * norms[v] * kappa_one
            tangents[v] = kappa * (scale * tangents[v] + covariance) if has_value else inverse * inverses[v]


@compiled
@no_type_check
def _close_cosines(sigma, first, second, scale, bias):
    """Weight of cosines close to 1 among equal columns."""
    w = second.size // 2
    close = 0.0
    for c in range(w):
        close += relu_duals((scale * sigma[c * w + c] + bias) * (first[c + w] * second[c + w]))[2]
    return close


@compiled
@no_type_check
def _close_pairs(sigma, first, second, scale, bias, step):
    """Weight of cosines close to 1 among every few columns of the first image with all of the second."""
    vector_loops()
    w = second.size // 2
    inverses = second[w:]
    close = scale * 0  # a zero in the precision of the loops
    for c in range(0, w, step):
        sigmas, inverse = sigma[c * w : (c + 1) * w], first[c + w]
        for v in range(w):
            close += relu_duals((scale * sigmas[v] + bias) * (inverse * inverses[v]))[2]
    return close


@compiled
@no_type_check
def _pool_block(block, width, out, weight):
    """Add a block to the block of pairs of windows that it belongs to."""
    vector_loops()
    w = width // 2
    # a last odd column belongs to no window: only 2w of `width` are read
    for c in range(2 * w):
        pooled, line = out[c // 2 * w : (c // 2 + 1) * w], block[c * width : (c + 1) * width]
        for v in range(w):
            pooled[v] += weight * (line[2 * v] + line[2 * v + 1])


@compiled
@no_type_check
def _pool_or_sum(strips, count, width, corner, pools, maps, nngp):
    """Pool a strip of blocks into `maps`, or return the sum of the last layer's."""
    total = 0.0
    sigma, tangent = strips
    for k in range(count):
        if pools:
            # pooling takes each of the two images by itself: windows of both, whatever their displacement
            r, q = (corner[0] + k) // 2, (corner[1] + k) // 2
            if r < maps[0].shape[0] and q < maps[0].shape[1]:
                weight = sigma.dtype.type(0.0625)  # a mean over 4 positions of either image
                _pool_block(sigma[k], width, maps[0][r, q], weight)
                _pool_block(tangent[k], width, maps[1][r, q], weight)
        else:
            # hundreds of thousands of terms: in float64
            for v in range(width * width):
                total += np.float64(sigma[k, v])
            if not nngp:
                for v in range(width * width):
                    total += np.float64(tangent[k, v])
    return total


@compiled
@no_type_check
def pooling_stage(patches, below, sides, layers, height, buffers, above):
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
    layers
        Of this stage.
    height
        Lines and columns of `below`.
    buffers
        Two pairs of strips and a block.
    above
        Where pooled Σ and T go, zeros; of no line after the last layer.
    """
    sizes, scales, size, padding = layers.sizes, layers.scales, layers.filter_size, layers.padding
    first_norms, second_norms = sides
    strips, next_strips, block = buffers
    begins = patches[0].shape[0] > 0
    last, total, still, moved, searched = sizes[sizes.shape[0] - 1, 0], 0.0, 0.0, 0.0, 0
    step = close_cosine_stride(last, sizes[sizes.shape[0] - 1, 1])
    # convolutions keep displacements and lines only get fewer: those larger than the last layer lead to no value
    for displacement in range(1 - last, last):
        # line k of the overlap is line k + first_line of the first image and k + second_line of the second
        first_line, second_line = max(0, -displacement), max(0, displacement)
        h, w, offset = height[0], height[1], 0
        source, target = strips, next_strips
        if not begins:
            for k in range(h - abs(displacement)):
                source[0][k, : w * w] = below[0][first_line + k, second_line + k]
                source[1][k, : w * w] = below[1][first_line + k, second_line + k]
        for layer in range(sizes.shape[0]):
            rows, columns = sizes[layer]
            factor = scales[0] if begins and layer == 0 else scales[1]
            for k in range(rows - abs(displacement)):
                sigma, tangent = target[0][k, : columns * columns], target[1][k, : columns * columns]
                if begins and layer == 0:
                    _block_products(patches[0][first_line + k], patches[1][second_line + k], sigma)
                    tangent[:] = 0
                else:
                    start, stop = max(0, k - padding), min(h - abs(displacement), k - padding + size)
                    _block_sums(source[0], start, stop, size, padding, w, block, sigma)
                    _block_sums(source[1], start, stop, size, padding, w, block, tangent)
                first_start = offset + (first_line + k) * 2 * columns
                second_start = offset + (second_line + k) * 2 * columns
                firsts = first_norms[first_start : first_start + 2 * columns]
                seconds = second_norms[second_start : second_start + 2 * columns]
                # counted before the activation, which overwrites Λ
                if displacement == 0:
                    still += _close_cosines(sigma, firsts, seconds, factor, scales[2])
                elif displacement % step == 0:
                    moved += _close_pairs(sigma, firsts, seconds, factor, scales[2], step)
                    searched += (columns + step - 1) // step * columns
                _block_activation(sigma, tangent, firsts, seconds, factor, scales[2])
            source, target = target, source
            offset += 2 * rows * columns
            h, w = rows, columns
        total += _pool_or_sum(
            source, h - abs(displacement), w, (first_line, second_line), above[0].shape[0] > 0, above,
            layers.nngp,
        )  # fmt: skip
    return total, still, moved, searched
