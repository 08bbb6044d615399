"""Kernels with global average pooling: a sum of flatten kernels over displacements."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.kernels.average_pooling import in_lines
from firstlight.kernels.compiled.global_pooling_forward import PAIRS, pooled_sums
from firstlight.kernels.compiled.global_pooling_gradients import pooled_pair_gradients
from firstlight.kernels.compiled.layers import LANES
from firstlight.kernels.kernel import ConvKernel
from firstlight.kernels.prepared_images import (
    FirstImages,
    KernelPlan,
    SecondImages,
    SinglePairs,
    column_norms,
)

WIDTH = 8  # second images in a block of lanes; LANES / WIDTH first ones


def pooled_values(
    plan: KernelPlan, rows: FirstImages, columns: SecondImages, upper: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a tile, and shares of close cosines; above the diagonal and on it only, if `upper`."""
    out, close = (np.zeros((rows.patches.shape[1], columns.squares.shape[1])) for _ in range(2))
    i, j = _tile_pairs(rows.patches.shape[1], columns.n, upper)
    values, still, shares = _pair_values(
        plan, rows.patches, columns.patches.mT, rows.squares, columns.squares, i, j
    )
    if upper:  # an image with itself: rounding would find angles where there are none
        own = i == j
        values[own] += columns.own_values(plan) / plan.last - still[own]
        shares[0, own] = 0
    out[i, j], close[i, j] = values, shares.max(0)
    return out, close


def _tile_pairs(n: int, m: int, upper: bool) -> tuple[np.ndarray, np.ndarray]:
    """Rows and columns of the entries of a tile; those above the diagonal and on it, if `upper`."""
    i, j = np.triu_indices(n, m=m) if upper else np.indices((n, m)).reshape(2, -1)
    return i, j


def average_pooled_values(
    plan: KernelPlan, rows: FirstImages, columns: SecondImages, upper: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Values of a tile of a kernel with pooling between layers, pair by pair, and shares of close cosines."""
    pooling, lines = plan.pooling_plan, int(plan.sizes[0, 0])
    first, second = in_lines(rows.patches.mT, lines), in_lines(columns.patches[:, :, : columns.n], lines)
    ours, theirs = (
        [pooling.sides(squares, first.dtype) for squares in side.T.numpy()]
        for side in (rows.squares, columns.squares)
    )
    out, close = (
        np.zeros((len(first), columns.squares.shape[1])),
        np.zeros((len(first), columns.squares.shape[1])),
    )
    for i, j in zip(*_tile_pairs(len(first), len(second), upper), strict=True):
        if upper and i == j:  # an image with itself: rounding would find angles where there are none
            image, side = first[i].astype(np.float64), pooling.sides(rows.squares[:, i].numpy())
            out[i, j], _ = pooling.value(image, image, (side, side))
        else:
            out[i, j], close[i, j] = pooling.value(first[i], second[j], (ours[i], theirs[j]))
    return out, close


def exact_average_pooled_values(pairs: SinglePairs) -> np.ndarray:
    """Values of single pairs of images in float64, of a kernel with pooling between layers."""
    plan = pairs.plan
    pooling, lines = plan.pooling_plan, int(plan.sizes[0, 0])
    first, second = in_lines(pairs.first, lines), in_lines(pairs.second, lines)
    ours = [pooling.sides(squares) for squares in pairs.first_squares.T.numpy()]
    theirs = [pooling.sides(squares) for squares in pairs.second_squares.T.numpy()]
    both = zip(pairs.i, pairs.j, strict=True)
    return np.array([pooling.value(first[i], second[j], (ours[i], theirs[j]))[0] for i, j in both])


def exact_pooled_values(pairs: SinglePairs) -> np.ndarray:
    """Values of single pairs of images in float64."""
    values, _, _ = _pair_values(
        pairs.plan,
        pairs.first.mT,
        pairs.second.mT,
        pairs.first_squares,
        pairs.second_squares,
        pairs.i,
        pairs.j,
    )
    return values


def _pair_values(
    plan: KernelPlan,
    first: Float[Tensor, "p a d"],
    second: Float[Tensor, "p b d"],
    first_squares: Float[Tensor, "t a"],
    second_squares: Float[Tensor, "t b"],
    i: np.ndarray,
    j: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Values of single pairs, their part without displacement, and weighted shares of cosines close to 1.

    The first row of the shares is without displacement, the second with one.
    """
    kernel = plan.kernel
    assert isinstance(kernel, ConvKernel)
    window = kernel.size if plan.shares_pixels else 1
    images = plan.planes(first), plan.planes(second)
    norms = _norms(first_squares, first.dtype), _norms(second_squares, first.dtype)
    values, still, close = np.empty(len(i) + PAIRS), np.empty(len(i) + PAIRS), np.empty((2, len(i) + PAIRS))
    for start in range(0, len(i), PAIRS):
        some = np.minimum(np.arange(start, start + PAIRS), len(i) - 1)  # the last pair fills what is left
        sides = i[some], j[some]
        pooled_sums(
            *(_side_by_side(planes[..., own]) for planes, own in zip(images, sides, strict=True)),
            window,
            tuple(_side_by_side(norm[..., own]) for norm, own in zip(norms, sides, strict=True)),
            plan.layers(first.dtype),
            values[start : start + PAIRS],
            still[start : start + PAIRS],
            close[:, start : start + PAIRS],
        )
    return values[: len(i)] / plan.last**2, still[: len(i)] / plan.last**2, close[:, : len(i)]


def _side_by_side(values: np.ndarray) -> np.ndarray:
    """The images, which come last, side by side at every place of the axis before them."""
    return np.ascontiguousarray(values).reshape(*values.shape[:-2], -1)


def _norms(squares: Float[Tensor, "t n"], dtype: torch.dtype) -> np.ndarray:
    """Norms, then their inverses, x position x image; both 0 for a zero patch."""
    norm = squares.sqrt()
    inverse = torch.where(norm > 0, 1 / norm, 0.0)
    both: np.ndarray = torch.stack([norm, inverse]).to(dtype).numpy()
    return both


def _in_lanes(patches: Float[Tensor, "p lanes d"]) -> np.ndarray:
    """Position x (entry lane)."""
    return patches.mT.flatten(1).contiguous().numpy()


def _shared_lines(plan: KernelPlan) -> tuple[int, int]:
    """Channels and lines of pixels per patch where neighbouring patches share them; else (1, 1)."""
    return (plan.shape[0], plan.kernel.geometry.size[0]) if plan.shares_pixels else (1, 1)


def pooled_gradients(
    plan: KernelPlan,
    rows: FirstImages,
    columns: SecondImages,
    alpha: Float[Tensor, "rows k"],
    *,
    doubt: float,
) -> tuple[Float[Tensor, "p kd lanes"], np.ndarray]:
    """Gradients at the points of a tile, for all outputs, norms included, position x (output d) x point.

    Pairs of images whose share of cosines close to 1 exceeds `doubt` are left out; they are returned as rows of two
    indices.
    """
    n, d = rows.patches.shape[1], plan.dimension
    height = LANES // WIDTH
    out = torch.zeros(plan.positions, alpha.shape[1], d, LANES, dtype=rows.patches.dtype)
    left_out = [np.empty((0, 2), int)]
    for i in range(0, n, height):
        some = range(i, min(i + height, n))
        for j in range(0, columns.n, WIDTH):
            first = np.minimum(np.repeat(np.arange(i, i + height), WIDTH), n - 1)
            second = np.tile(np.arange(j, j + WIDTH), height)
            gradients, close = _pair_gradients(
                plan, rows.patches[:, first], columns.patches.mT[:, second],
                rows.squares[:, first], columns.squares[:, second],
            )  # fmt: skip
            pairs = gradients.reshape(plan.positions, d, height, WIDTH)[:, :, : len(some)]
            doubtful = (close > doubt).reshape(height, WIDTH)[: len(some)]
            doubtful[:, columns.n - j :] = False  # lanes without an image
            pairs[:, :, torch.from_numpy(doubtful)] = 0.0
            left_out.append(np.argwhere(doubtful) + np.array([i, j]))
            out[..., j : j + WIDTH] += torch.einsum("pdiw,ik->pkdw", pairs, alpha[list(some)])
    return out.flatten(1, 2), np.concatenate(left_out)


def exact_pooled_gradients(pairs: SinglePairs) -> Float[Tensor, "p d n"]:
    """Gradients of up to `LANES` single pairs by the patches of the second images, in float64."""
    n = len(pairs.i)
    i, j = (np.pad(side, (0, LANES - n), mode="edge") for side in (pairs.i, pairs.j))
    gradients, _ = _pair_gradients(
        pairs.plan,
        pairs.first.mT[:, i],
        pairs.second.mT[:, j],
        pairs.first_squares[:, i],
        pairs.second_squares[:, j],
    )
    return gradients[..., :n]


def _pair_gradients(
    plan: KernelPlan,
    first: Float[Tensor, "p lanes d"],
    second: Float[Tensor, "p lanes d"],
    first_squares: Float[Tensor, "t lanes"],
    second_squares: Float[Tensor, "t lanes"],
) -> tuple[Float[Tensor, "p d lanes"], np.ndarray]:
    """Gradients of `LANES` pairs by the patches of the second images, and shares of cosines close to 1."""
    dtype = first.dtype
    sums = torch.zeros(plan.positions, plan.dimension * LANES, dtype=dtype)
    close = np.empty((2, LANES))
    pooled_pair_gradients(
        _in_lanes(first),
        _in_lanes(second),
        _shared_lines(plan),
        column_norms(first_squares, first.dtype).numpy(),
        column_norms(second_squares, first.dtype).numpy(),
        plan.layers(dtype),
        sums.numpy().dtype.type(1 / plan.last**2),
        sums.numpy(),
        close,
    )
    return sums.reshape(plan.positions, plan.dimension, LANES), close.max(0)
