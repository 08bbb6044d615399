"""The inner loops: many pairs of images side by side, one in each lane of the processor's vectors.

A block holds `LANES` pairs. All its arrays end in the lane axis, so every loop over lanes is one run of
vector instructions. The two running quantities of a layer, Σ and T (or their adjoints), lie beside each
other, so that one box sum serves both.
"""

from typing import NamedTuple, no_type_check

import numpy as np

from firstlight.kernels.compiled.compiling import compiled, vector_loops
from firstlight.kernels.compiled.dual_activations import kappa_zero_slope, relu_duals, sine_over_pi

# Two vectors of 512 bits in float32; both states of a block of 32 x 32 images, 460 KB, stay in the second cache.
LANES = 32


class Layers(NamedTuple):
    """What the loops must know of a kernel, for images of one shape."""

    sizes: np.ndarray  # lines and columns of positions, layer by layer
    filter_size: int
    padding: int
    scales: (
        np.ndarray
    )  # factor of the first layer, σ_w²/q² of the later ones, σ_b²; in the precision of the loops
    nngp: bool  # the value is Σ; otherwise Σ + T


@compiled
@no_type_check
def _sum_rows(source, first, last, row):
    """Sum of the lines `first` to `last` of `source`."""
    vector_loops()
    # three lines in one pass: the sum is written once instead of read and written three times
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
        # with a window wider than the image an offset may lie outside everywhere
        if stop > start:
            part, shifted = out[start:stop], row[start + shift : stop + shift]
            for k in range(stop - start):
                part[k] += shifted[k]


@compiled
@no_type_check
def box_sums(source, target, size, padding, lanes, room):
    """Sums over windows of `size`, zeros outside, of `lanes` maps side by side; lines x (columns lanes)."""
    vector_loops()
    # The box is separable: Σ_δ = Σ_rows Σ_columns, 2q additions per position instead of q². Lines come first, so that
    # the partial sum is one line, which stays in the first cache.
    row = room[: source.shape[1]]
    for r in range(target.shape[0]):
        first = r - padding
        _sum_rows(source, max(first, 0), min(first + size, source.shape[0]), row)
        _sum_columns(row, target[r], size, padding, lanes)


# Rows of the arrays below are flat, slot after slot: with a separate slot axis LLVM's overlap checks fail at run
# time and the scalar loop is taken (six times slower).


@compiled
@no_type_check
def _activation_of_products(products, column, target, first_norms, second_norms, scale, bias, close):
    """Σ and T of the first layer from inner products, `LANES` columns of `products` from `column` on."""
    vector_loops()
    for p in range(target.shape[0]):
        product, state, side = products[p, column : column + LANES], target[p], second_norms[p]
        norm, inverse = first_norms[p, 0], first_norms[p, 1]
        for v in range(LANES):
            # ⟨x[p], z[p]⟩ → Λ¹ = ⟨x[p], z[p]⟩ + σ_b²
            covariance = scale * product[v] + bias
            # Λ → ρ = Λ / √(Λ(x,x) Λ(z,z)); an inverse norm of 0 makes ρ = 0 for zero patches, without a branch
            kappa, kappa_one, is_close = relu_duals(covariance * (inverse * side[v + LANES]))
            # ρ → Σ = √(Λ(x,x) Λ(z,z)) κ₁(ρ), and T = κ₀(ρ) Λ: there is no T below the first layer
            state[v] = norm * side[v] * kappa_one
            state[v + LANES] = kappa * covariance
            close[v] += is_close


@compiled
@no_type_check
def _activation_of_three_columns(row, target, first_norms, second_norms, scale, bias, close):
    """Σ and T of a line of positions, from the line below them (summed over lines) summed over three columns."""
    vector_loops()
    # filters of 3 without padding are the usual case: box sum and activation in one pass save a trip to memory
    for p in range(target.shape[0]):
        neighbours, state, side = row[2 * LANES * p : 2 * LANES * (p + 3)], target[p], second_norms[p]
        norm, inverse = first_norms[p, 0], first_norms[p, 1]
        for v in range(LANES):
            # Σ, T of the layer below → ΣδΣ, ΣδT; slots alternate, so the same quantity is 2 LANES further
            sigmas = neighbours[v] + neighbours[v + 2 * LANES] + neighbours[v + 4 * LANES]
            tangents = neighbours[v + LANES] + neighbours[v + 3 * LANES] + neighbours[v + 5 * LANES]
            # ΣδΣ → Λ → ρ
            covariance = scale * sigmas + bias
            kappa, kappa_one, is_close = relu_duals(covariance * (inverse * side[v + LANES]))
            # ρ → Σ, and T = κ₀(ρ) (Λ + (σ_w²/q²) ΣδT)
            state[v] = norm * side[v] * kappa_one
            state[v + LANES] = kappa * (scale * tangents + covariance)
            close[v] += is_close


@compiled
@no_type_check
def _activation(state, first_norms, second_norms, scale, bias, close):
    """Sums of Σ and T of the layer below, in place, to Σ and T of this layer."""
    vector_loops()
    for p in range(state.shape[0]):
        pair, side = state[p], second_norms[p]
        norm, inverse = first_norms[p, 0], first_norms[p, 1]
        for v in range(LANES):
            # ΣδΣ, ΣδT → Λ, Λ + U with U = (σ_w²/q²) ΣδT → Σ, T
            covariance = scale * pair[v] + bias
            total = scale * pair[v + LANES] + covariance
            kappa, kappa_one, is_close = relu_duals(covariance * (inverse * side[v + LANES]))
            pair[v] = norm * side[v] * kappa_one
            pair[v + LANES] = kappa * total
            close[v] += is_close


@compiled
@no_type_check
def _activation_recorded(state, first_norms, second_norms, scale, bias, close, saved_activations):
    """Like :func:`_activation`; keeps what the way back needs: ρ, κ₀, sin θ / π and Λ + U."""
    vector_loops()
    for p in range(state.shape[0]):
        pair, side, saved = state[p], second_norms[p], saved_activations[p]
        norm, inverse = first_norms[p, 0], first_norms[p, 1]
        for v in range(LANES):
            covariance = scale * pair[v] + bias
            total = scale * pair[v + LANES] + covariance
            rho = covariance * (inverse * side[v + LANES])
            kappa, kappa_one, is_close = relu_duals(rho)
            pair[v] = norm * side[v] * kappa_one
            pair[v + LANES] = kappa * total
            close[v] += is_close
            # Λ and U are overwritten here: what the derivatives need of them is kept
            saved[v] = rho
            saved[v + LANES] = kappa
            saved[v + 2 * LANES] = sine_over_pi(rho)
            saved[v + 3 * LANES] = total


@compiled
@no_type_check
def _activation_backward(adjoint, first_norms, second_norms, saved_activations):
    """Adjoints of Σ, T and of the squared norm of the second image, in place, to those of Λ, U and it."""
    vector_loops()
    for p in range(adjoint.shape[0]):
        adjoints, side, saved = adjoint[p], second_norms[p], saved_activations[p]
        norm, inverse = first_norms[p, 0], first_norms[p, 1]
        for v in range(LANES):
            to_sigma, to_tangent = adjoints[v], adjoints[v + LANES]
            kappa, sine = saved[v + LANES], saved[v + 2 * LANES]
            inverse_norms = inverse * side[v + LANES]
            # T = κ₀(ρ) (Λ + U): T̄ → ρ̄ = T̄ (Λ + U) κ₀'(ρ); κ₀' = 1/(π sin θ), 0 for identical patches
            to_rho = to_tangent * saved[v + 3 * LANES] * kappa_zero_slope(sine)
            # T̄ → Ū = T̄ κ₀(ρ), which is part of Λ̄ too
            to_total = to_tangent * kappa
            # Σ = N κ₁(Λ/N) and κ₁' = κ₀: Σ̄ → Σ̄ κ₀; ρ = Λ/N: ρ̄ → ρ̄/N
            to_covariance = to_sigma * kappa + to_total + to_rho * inverse_norms
            has_value = inverse_norms > 0  # a zero patch has neither value nor gradient
            adjoints[v] = to_covariance if has_value else inverse_norms
            adjoints[v + LANES] = to_total if has_value else inverse_norms
            # N² = Λ(x,x) s with s = Λ(z,z): ∂N/∂s = N/(2s), ∂Σ/∂N = κ₁ - ρκ₀ = sin θ/π, ∂ρ/∂s = -ρ/(2s); the third
            # slot of the norms is 1/(2s). The norm of x is a constant: gradients are taken at z.
            adjoints[v + 2 * LANES] += side[v + 2 * LANES] * (
                to_sigma * norm * side[v] * sine - to_rho * saved[v]
            )


@compiled
@no_type_check
def forward_layers(products, column, buffers, first_norms, second_norms, layers, close):
    """All layers upwards, line by line; returns Σ and T of the last.

    `buffers` holds two states, position x (slot lane), and a line.
    """
    vector_loops()
    state, next_state, row = buffers
    sizes, scales = layers.sizes, layers.scales
    size, padding = layers.filter_size, layers.padding
    n = sizes[0, 0] * sizes[0, 1]
    _activation_of_products(
        products, column, state[:n], first_norms, second_norms, scales[0], scales[2], close
    )
    start = n  # norms of all layers lie one after the other
    for layer in range(1, sizes.shape[0]):
        below = state[:n].reshape(sizes[layer - 1, 0], sizes[layer - 1, 1] * 2 * LANES)
        h, w = sizes[layer]
        for r in range(h):
            # line by line, activated while it is still in the first cache, instead of the box sums of a whole layer
            line, first_line, p = next_state[r * w : (r + 1) * w], r - padding, start + r * w
            sums = row[: below.shape[1]]
            _sum_rows(below, max(first_line, 0), min(first_line + size, below.shape[0]), sums)
            firsts, seconds = first_norms[p : p + w], second_norms[p : p + w]
            if size == 3 and padding == 0:
                _activation_of_three_columns(sums, line, firsts, seconds, scales[1], scales[2], close)
            else:
                _sum_columns(sums, line.reshape(w * 2 * LANES), size, padding, 2 * LANES)
                _activation(line, firsts, seconds, scales[1], scales[2], close)
        state, next_state = next_state, state
        n = h * w
        start += n
    return state[:n]


@compiled
@no_type_check
def forward_layers_recorded(
    products, column, buffers, first_norms, second_norms, layers, close, saved_activations
):
    """Like :func:`forward_layers`, layer by layer; keeps what :func:`backward_layers` needs."""
    vector_loops()
    state, next_state, row = buffers
    sizes, scales = layers.sizes, layers.scales
    n = sizes[0, 0] * sizes[0, 1]
    _load(products, column, state[:n])
    start = 0
    for layer in range(sizes.shape[0]):
        if layer > 0:
            h, w = sizes[layer]
            box_sums(
                state[:n].reshape(sizes[layer - 1, 0], sizes[layer - 1, 1] * 2 * LANES),
                next_state[: h * w].reshape(h, w * 2 * LANES),
                layers.filter_size, layers.padding, 2 * LANES, row,
            )  # fmt: skip
            state, next_state = next_state, state
            n = h * w
        positions = slice(start, start + n)
        factor = scales[0] if layer == 0 else scales[1]
        _activation_recorded(
            state[:n], first_norms[positions], second_norms[positions], factor, scales[2], close,
            saved_activations[positions],
        )  # fmt: skip
        start += n
    return state[:n]


@compiled
@no_type_check
def backward_layers(buffers, first_norms, second_norms, layers, saved_activations):
    """All layers downwards; returns the adjoints of the first layer's inner products and norms.

    `buffers` holds the adjoints of the last layer, as much space again, and a line.
    """
    vector_loops()
    adjoint, next_adjoint, row = buffers
    sizes, scales = layers.sizes, layers.scales
    size, padding = layers.filter_size, layers.padding
    n_layers = sizes.shape[0]
    start = saved_activations.shape[0]
    for layer in range(n_layers - 1, -1, -1):
        n = sizes[layer, 0] * sizes[layer, 1]
        start -= n
        current = adjoint[:n]
        # Σ̄, T̄, s̄ of this layer → Λ̄, Ū, s̄
        _activation_backward(
            current, first_norms[start : start + n], second_norms[start : start + n],
            saved_activations[start : start + n],
        )  # fmt: skip
        if layer > 0:
            # Λ = (σ_w²/q²) ΣδΣ + σ_b², U = (σ_w²/q²) ΣδT, and s = (σ_w²/q²) Σδs + σ_b² since κ₁(1) = 1: all three
            # adjoints go down by the same factor and the same transposed box
            if scales[1] != 1:
                current *= scales[1]
            h, w = sizes[layer - 1]
            box_sums(  # the transpose of a box with padding P is a box with padding q - 1 - P
                current.reshape(sizes[layer, 0], sizes[layer, 1] * 3 * LANES),
                next_adjoint[: h * w].reshape(h, w * 3 * LANES),
                size, size - 1 - padding, 3 * LANES, row,
            )  # fmt: skip
            adjoint, next_adjoint = next_adjoint, adjoint
    return adjoint[:n]


@compiled
@no_type_check
def add_sums(state, out, nngp):
    """Sum over positions; `out` is float64, for a thousand terms in float32 would cost a digit."""
    vector_loops()
    p = 0
    while p + 2 <= state.shape[0]:  # by twos: half as many conversions to float64
        pair, following = state[p], state[p + 1]
        if nngp:
            for v in range(LANES):
                out[v] += pair[v] + following[v]
        else:
            for v in range(LANES):
                out[v] += (pair[v] + pair[v + LANES]) + (following[v] + following[v + LANES])
        p += 2
    if p < state.shape[0]:
        pair = state[p]
        for v in range(LANES):
            out[v] += pair[v] if nngp else pair[v] + pair[v + LANES]


@compiled
@no_type_check
def _pixel_products(first, second, lines):
    """Inner products of the pixels of one image and of `LANES` others, line x (column lane)."""
    vector_loops()
    channels = second.shape[2] // LANES
    for r in range(lines.shape[0]):
        pixels, other_pixels, line = first[r], second[r], lines[r]
        for c in range(other_pixels.shape[0]):
            products, others = line[c * LANES : (c + 1) * LANES], other_pixels[c]
            if channels == 3:  # the usual images: one pass, no partial sum in memory
                red, green, blue = pixels[3 * c], pixels[3 * c + 1], pixels[3 * c + 2]
                for v in range(LANES):
                    products[v] = red * others[v] + green * others[v + LANES] + blue * others[v + 2 * LANES]
            else:
                products[:] = 0
                for channel in range(channels):
                    value, plane = pixels[c * channels + channel], others[channel * LANES :]
                    for v in range(LANES):
                        products[v] += value * plane[v]


@compiled
@no_type_check
def pixel_values(pixels, others, buffers, first_norms, second_norms, layers, out, close):
    """Values of all pairs of a tile, from pixels: products of pixels serve all patches that hold them.

    Parameters
    ----------
    pixels, others
        Image x line x (column channel), and line x column x (channel lane).
    buffers, first_norms, second_norms, layers, out, close
        As for :func:`flatten_values`.
    """
    vector_loops()
    h, w = layers.sizes[0]
    lines = np.empty((others.shape[0], others.shape[1] * LANES), pixels.dtype)
    row = np.empty(lines.shape[1], pixels.dtype)
    products = np.empty((h * w, LANES), pixels.dtype)
    for i in range(pixels.shape[0]):
        out[i] = 0
        close[i] = 0
        # ⟨x[p], z[p]⟩ is itself a box sum of products of pixels: c multiplications per position instead of c q².
        # Padding is in the pixels already.
        _pixel_products(pixels[i], others, lines)
        box_sums(lines, products.reshape(h, w * LANES), layers.filter_size, 0, LANES, row)
        last = forward_layers(products, 0, buffers, first_norms[i], second_norms, layers, close[i])
        add_sums(last, out[i], layers.nngp)


@compiled
@no_type_check
def flatten_values(products, buffers, first_norms, second_norms, layers, out, close):
    """Values of all pairs of a tile, as sums over the last layer's positions.

    Parameters
    ----------
    products
        Inner products of first-layer patches, position x image x lane.
    buffers
        For :func:`forward_layers`.
    first_norms
        Norm and inverse norm of every image of the tile, image x layers' positions x 2.
    second_norms
        Norm, inverse norm and half its square of the lanes' images, layers' positions x 3 x lane.
    layers
        The kernel.
    out, close
        Value, and number of cosines close to 1, image x lane.
    """
    vector_loops()
    images = products.shape[1]
    flat = products.reshape(products.shape[0], images * LANES)
    for i in range(images):
        out[i] = 0
        close[i] = 0
        last = forward_layers(flat, i * LANES, buffers, first_norms[i], second_norms, layers, close[i])
        add_sums(last, out[i], layers.nngp)


@compiled
@no_type_check
def flatten_gradients(products, norms, first_norms, second_norms, layers, weight, close):
    """Derivatives of all values of a tile; arguments as for :func:`flatten_values`.

    `products` is overwritten by the derivatives by the inner products, `norms`, of the same shape, by
    those by the squared norms of the lanes' patches.
    """
    vector_loops()
    images = products.shape[1]
    flat = products.reshape(products.shape[0], images * LANES)
    flat_norms = norms.reshape(products.shape[0], images * LANES)
    buffers = allocate_buffers(products.shape[0], layers.sizes, 2, products)
    adjoint_buffers = allocate_buffers(products.shape[0], layers.sizes, 3, products)
    saved_activations = np.empty((first_norms.shape[1], 4 * LANES), products.dtype)
    # one image at a time: what is saved for the way back is that of `LANES` pairs, whatever the size of the tile
    for i in range(images):
        close[i] = 0
        last = forward_layers_recorded(
            flat, i * LANES, buffers, first_norms[i], second_norms, layers, close[i], saved_activations
        )
        last_layer_adjoints(adjoint_buffers[0][: len(last)], weight, layers.nngp)
        adjoint = backward_layers(adjoint_buffers, first_norms[i], second_norms, layers, saved_activations)
        _unload(adjoint, i * LANES, flat, flat_norms)


@compiled
@no_type_check
def last_layer_adjoints(adjoint, weight, nngp):
    """Derivatives of the value by Σ, T and the squared norm of the last layer."""
    vector_loops()
    # K = weight Σ_p (Σ + T): the same derivative at every position, and none by the norms themselves
    adjoint[:, :LANES] = weight
    adjoint[:, LANES : 2 * LANES] = 0 if nngp else weight
    adjoint[:, 2 * LANES :] = 0


@compiled
@no_type_check
def allocate_buffers(positions, sizes, slots, like):
    """Two states of `slots` running quantities, position x (slot lane), and one line of them."""
    state = np.empty((positions, slots * LANES), like.dtype)
    return state, np.empty_like(state), np.empty(np.max(sizes) * slots * LANES, like.dtype)


@compiled
@no_type_check
def _load(products, column, state):
    vector_loops()
    for p in range(state.shape[0]):
        pair, product = state[p], products[p, column : column + LANES]
        for v in range(LANES):
            pair[v] = product[v]
        pair[LANES:] = 0  # below the first layer there is no T


@compiled
@no_type_check
def _unload(adjoint, column, products, norms):
    vector_loops()
    for p in range(adjoint.shape[0]):
        adjoints = adjoint[p]
        by_product, by_norm = products[p, column : column + LANES], norms[p, column : column + LANES]
        for v in range(LANES):
            # slot 1, the adjoint of T below the first layer, belongs to nothing
            by_product[v] = adjoints[v]
            by_norm[v] = adjoints[v + 2 * LANES]


@compiled
@no_type_check
def pair_values(products, norms, layers, out):
    """Values of `LANES` arbitrary pairs.

    `products` is position x lane; `norms` holds the pairs' products of norms, of inverse norms, and half
    the inverse square of the second norm.
    """
    vector_loops()
    # both norms differ from lane to lane: they are multiplied beforehand, and 1 stands for the norms of the first image
    unit = np.ones((norms.shape[0], 2), products.dtype)
    buffers = allocate_buffers(products.shape[0], layers.sizes, 2, products)
    close = np.zeros(LANES, products.dtype)
    out[:] = 0
    add_sums(forward_layers(products, 0, buffers, unit, norms, layers, close), out, layers.nngp)


@compiled
@no_type_check
def pair_gradients(products, by_norms, norms, layers, weight):
    """Derivatives of `LANES` arbitrary pairs, written over `products` and into `by_norms`."""
    vector_loops()
    unit = np.ones((norms.shape[0], 2), products.dtype)
    buffers = allocate_buffers(products.shape[0], layers.sizes, 2, products)
    adjoint_buffers = allocate_buffers(products.shape[0], layers.sizes, 3, products)
    close = np.zeros(LANES, products.dtype)
    saved_activations = np.empty((norms.shape[0], 4 * LANES), products.dtype)
    last = forward_layers_recorded(products, 0, buffers, unit, norms, layers, close, saved_activations)
    last_layer_adjoints(adjoint_buffers[0][: len(last)], weight, layers.nngp)
    adjoint = backward_layers(adjoint_buffers, unit, norms, layers, saved_activations)
    _unload(adjoint, 0, products, by_norms)
