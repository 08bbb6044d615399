"""Kernels with global average pooling: a sum of flatten kernels over displacements."""

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.kernels import patch_lanes, pooled_lanes
from firstlight.kernels.halving import in_lines
from firstlight.kernels.lanes import LANES
from firstlight.kernels.spec import ConvKernel
from firstlight.kernels.tiles import Columns, Pairs, Plan, Rows

WIDTH = 8  # second images in a block of lanes; LANES / WIDTH first ones


def pooled_values(plan: Plan, rows: Rows, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Values of a tile, and shares of close cosines; every lane is a pair of its own, so small sets fill the lanes."""
    n = rows.patches.shape[1]
    second = columns.patches.permute(2, 0, 1)
    out, close = np.zeros((n, LANES)), np.zeros((n, LANES))
    height = LANES // WIDTH
    for i in range(0, n, height):
        for j in range(0, columns.n, WIDTH):
            first_index = np.minimum(np.repeat(np.arange(i, i + height), WIDTH), n - 1)
            second_index = np.tile(np.arange(j, j + WIDTH), height)
            results = _pooled(
                plan,
                rows.patches[:, first_index],
                second[second_index].transpose(0, 1),
                rows.squares[:, first_index],
                columns.squares[:, second_index],
            )
            for target, values in zip((out, close), results, strict=True):
                target[i : i + height, j : j + WIDTH] = values.reshape(height, WIDTH)[: n - i]
    return out, close


def halved_values(plan: Plan, rows: Rows, columns: Columns) -> tuple[np.ndarray, np.ndarray]:
    """Values of a tile of a kernel with pooling between layers, pair by pair, and shares of close cosines."""
    stages, lines = plan.stages, int(plan.sizes[0, 0])
    first, second = in_lines(rows.patches.mT, lines), in_lines(columns.patches[:, :, : columns.n], lines)
    ours, theirs = (
        [stages.sides(squares, first.dtype) for squares in side.T.numpy()]
        for side in (rows.squares, columns.squares)
    )
    out, close = (
        np.zeros((len(first), columns.squares.shape[1])),
        np.zeros((len(first), columns.squares.shape[1])),
    )
    for i, j in np.ndindex(len(first), len(second)):
        out[i, j], close[i, j] = stages.value(first[i], second[j], (ours[i], theirs[j]))
    return out, close


def exact_halved_values(pairs: Pairs) -> np.ndarray:
    """Values of single pairs of images in float64, of a kernel with pooling between layers."""
    plan = pairs.plan
    stages, lines = plan.stages, int(plan.sizes[0, 0])
    first, second = in_lines(pairs.first, lines), in_lines(pairs.second, lines)
    ours = [stages.sides(squares) for squares in pairs.first_squares.T.numpy()]
    theirs = [stages.sides(squares) for squares in pairs.second_squares.T.numpy()]
    both = zip(pairs.i, pairs.j, strict=True)
    return np.array([stages.value(first[i], second[j], (ours[i], theirs[j]))[0] for i, j in both])


def exact_pooled_values(pairs: Pairs) -> np.ndarray:
    """Values of single pairs of images in float64."""
    values = np.empty(len(pairs.i) + LANES)
    for start in range(0, len(pairs.i), LANES):
        lanes = np.minimum(np.arange(start, start + LANES), len(pairs.i) - 1)
        i, j = pairs.i[lanes], pairs.j[lanes]
        values[start : start + LANES], _ = _pooled(
            pairs.plan, pairs.first.mT[:, i], pairs.second.mT[:, j], pairs.first_squares[:, i],
            pairs.second_squares[:, j],
        )  # fmt: skip
    return values[: len(pairs.i)]


def _pooled(
    plan: Plan,
    first: Float[Tensor, "p lanes d"],
    second: Float[Tensor, "p lanes d"],
    first_squares: Float[Tensor, "t lanes"],
    second_squares: Float[Tensor, "t lanes"],
) -> tuple[np.ndarray, np.ndarray]:
    """Values of `LANES` pairs, and the weighted share of cosines close to 1 where the images are not displaced."""
    kernel = plan.kernel
    assert isinstance(kernel, ConvKernel)
    values, close = np.empty(LANES), np.empty(LANES)
    pooled_lanes.pooled_sums(
        _in_lanes(first),
        _in_lanes(second),
        _shared_lines(plan),
        _norms_in_lanes(first_squares, first),
        _norms_in_lanes(second_squares, first),
        plan.sizes,
        (kernel.size, kernel.padding),
        plan.scales(first.dtype),
        kernel.kind == "nngp",
        values,
        close,
    )
    return values / plan.last**2, close / len(first_squares)


def _in_lanes(patches: Float[Tensor, "p lanes d"]) -> np.ndarray:
    """Position x (entry lane)."""
    return patches.mT.flatten(1).contiguous().numpy()


def _shared_lines(plan: Plan) -> tuple[int, int]:
    """Channels and lines of pixels per patch where neighbouring patches share them; else (1, 1)."""
    geometry = plan.kernel.geometry
    return (plan.shape[0], geometry.size[0]) if plan.root is None and geometry.stride[0] == 1 else (1, 1)


def _norms_in_lanes(squares: Float[Tensor, "t lanes"], like: Tensor) -> np.ndarray:
    """Norm, inverse norm and half its square, position x (slot lane)."""
    norms = np.empty((len(squares), 3 * LANES), like.numpy().dtype)
    patch_lanes.column_norms(squares.contiguous().numpy(), norms)
    return norms


def pooled_gradients(
    plan: Plan, rows: Rows, columns: Columns, alpha: Float[Tensor, "rows k"]
) -> Float[Tensor, "p lanes kd"]:
    """Gradients at the points of a tile, for all outputs, norms included, position x point x (output d)."""
    kernel = plan.kernel
    assert isinstance(kernel, ConvKernel)
    n, d = rows.patches.shape[1], plan.dimension
    height = LANES // WIDTH
    second = columns.patches.permute(2, 0, 1)
    out = torch.zeros(plan.positions, LANES, alpha.shape[1], d, dtype=rows.patches.dtype)
    for i in range(0, n, height):
        some = range(i, min(i + height, n))
        for j in range(0, columns.n, WIDTH):
            first_index = np.minimum(np.repeat(np.arange(i, i + height), WIDTH), n - 1)
            second_index = np.tile(np.arange(j, j + WIDTH), height)
            sums = np.zeros((plan.positions, d * LANES), rows.patches.numpy().dtype)
            pooled_lanes.pooled_slopes(
                _in_lanes(rows.patches[:, first_index]),
                _in_lanes(second[second_index].transpose(0, 1)),
                _shared_lines(plan),
                _norms_in_lanes(rows.squares[:, first_index], rows.patches),
                _norms_in_lanes(columns.squares[:, second_index], rows.patches),
                plan.sizes,
                (kernel.size, kernel.padding),
                plan.scales(rows.patches.dtype),
                kernel.kind == "nngp",
                sums.dtype.type(1 / plan.last**2),
                sums,
            )
            pairs = torch.from_numpy(sums).reshape(plan.positions, d, height, WIDTH)[:, :, : len(some)]
            out[:, j : j + WIDTH] += torch.einsum("pdiw,ik->pwkd", pairs, alpha[list(some)])
    return out.flatten(2)
