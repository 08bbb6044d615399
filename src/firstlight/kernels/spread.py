"""Kernel matrices and gradients as tasks of a cluster, with the bits that one machine gives."""

from functools import partial

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.core.errors import InvalidInput
from firstlight.core.parallel import cluster_cores, finished_tasks, map_tasks
from firstlight.core.shapes import Images
from firstlight.kernels.agop import FEW_TERMS, _reaches_out, _Task, kernel_agop
from firstlight.kernels.gram import gram
from firstlight.kernels.parts import blocks_of, part_values
from firstlight.kernels.spec import Kernel, PatchKernel, check_gradients
from firstlight.kernels.tensors import uses_tensors
from firstlight.kernels.tiles import Plan

# images on a side of a task; whole tiles, so that the bits are those of one machine
SIDES = (1024, 512, 256, 128, 64)
TASKS_PER_CORE = 4  # enough that no worker waits long for the last
FEW_PAIRS = 1 << 14  # below, sending costs more than computing


def spread_gram(
    x: Images,
    z: Float[Tensor, "m _c _h _w"] | None = None,
    *,
    kernel: Kernel,
    metric: Float[Tensor, "d d"] | None = None,
    dtype: torch.dtype = torch.float32,
    out: np.ndarray | None = None,
    engine: str = "auto",
    n_jobs: int | None = None,
    show: bool | None = None,
) -> Float[Tensor, "n m"]:
    """Kernel matrix as :func:`firstlight.kernels.gram` gives it, its tiles computed by the workers of a cluster.

    Without a cluster, with an accelerator here, and for few images it is that function.
    """
    shape = (len(x), len(x if z is None else z))
    cores = cluster_cores()
    if cores is None or shape[0] * shape[1] < FEW_PAIRS or uses_tensors(engine, kernel):
        return gram(
            x, z, kernel=kernel, metric=metric, dtype=dtype, out=out, engine=engine, n_jobs=n_jobs, show=show
        )
    Plan.of(kernel, x, metric)
    if out is not None and out.shape != shape:
        raise InvalidInput(f"`out` must have the shape {shape}; got {out.shape}.")
    # memory from torch, which is aligned: products with the matrix do not depend on where it happens to lie
    target = torch.empty(shape, dtype=torch.float64).numpy() if out is None else out
    blocks = {side: list(blocks_of(shape, side, symmetric=z is None)) for side in SIDES}
    side = next((side for side in SIDES if len(blocks[side]) >= TASKS_PER_CORE * cores), SIDES[-1])
    compute = partial(part_values, x=x, z=z, kernel=kernel, metric=metric, dtype=dtype, part=side)
    for index, values in finished_tasks(compute, blocks[side], label="Kernel", show=show):
        i, j = blocks[side][index]
        target[i : i + side, j : j + side] = values
        if z is None:
            target[j : j + side, i : i + side] = values.T
    return torch.from_numpy(target)


def spread_agop(
    centres: Images,
    alpha: Float[Tensor, "rows k"],
    points: Float[Tensor, "m _c _h _w"] | None = None,
    *,
    kernel: Kernel,
    metric: Float[Tensor, "d d"] | None = None,
    dtype: torch.dtype = torch.float32,
    engine: str = "auto",
    n_jobs: int | None = None,
    show: bool | None = None,
) -> Float[Tensor, "d d"]:
    """Gradient outer product as :func:`firstlight.kernels.kernel_agop` gives it, its points spread over a cluster.

    The parts are those of that function and are added in its order. Without a cluster, with an accelerator here, and
    for arguments that it refuses, it is that function.
    """
    check_gradients(kernel)
    is_sound = alpha.ndim == 2 and len(alpha) == len(centres) and bool(alpha.isfinite().all())
    where = centres if points is None else points
    if cluster_cores() is None or uses_tensors(engine, kernel) or not is_sound or not len(where):
        return kernel_agop(
            centres, alpha, points, kernel=kernel, metric=metric, dtype=dtype, engine=engine, n_jobs=n_jobs,
            show=show,
        )  # fmt: skip
    plan = Plan.of(kernel, centres, metric)
    plan.check(where, "points")
    few = len(centres) * len(where) * plan.positions < FEW_TERMS
    if isinstance(kernel, PatchKernel) or few:
        dtype = torch.float64  # as in `kernel_agop`
    task = _Task(plan, centres, where, alpha, dtype, _reaches_out(kernel))
    starts = range(0, len(where), task.width)
    total = torch.zeros(plan.dimension, plan.dimension, dtype=torch.float64)
    for part in map_tasks(task.outer_products, starts, label="Gradients", show=show):
        total += part
    if plan.root is not None:
        total = plan.root @ total @ plan.root
    return (total + total.T) * (0.5 * kernel.patch_scale(plan.shape[0]) / len(where))
