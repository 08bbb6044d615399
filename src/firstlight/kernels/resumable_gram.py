"""Gram matrices that outlive a killed process and may be spread over machines: part by part."""

import hashlib
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import finished_tasks
from firstlight._internal.files import whole_file
from firstlight._internal.shapes import Images
from firstlight._internal.tensor_files import load_sealed, save_sealed
from firstlight._internal.untrusted_files import is_regular
from firstlight._internal.version import __version__
from firstlight.kernels.gram import BAND, Block, blocks_of, part_values
from firstlight.kernels.kernel import Kernel
from firstlight.kernels.prepared_images import KernelPlan


def gram_in_parts(
    x: Images,
    z: Float[Tensor, "m _c _h _w"] | None = None,
    *,
    kernel: Kernel,
    folder: Path,
    metric: Float[Tensor, "d d"] | None = None,
    dtype: torch.dtype = torch.float32,
    part: int = 2 * BAND,
    out: np.ndarray | None = None,
    n_jobs: int | None = None,
    show: bool | None = None,
) -> Float[Tensor, "n m"]:
    """Kernel matrix as :func:`firstlight.kernels.kernel_gram` gives it, every finished part kept in `folder`.

    A second call with the same arguments goes on where the first was stopped. GramFiles are tasks of
    :func:`firstlight._internal.executor.map_tasks`: inside :func:`firstlight._internal.executor.on_cluster` they run on
    that cluster, and only this process writes.

    Parameters
    ----------
    x, z, kernel, metric, dtype, out, show
        As for :func:`firstlight.kernels.kernel_gram`.
    folder : Path
        Where the parts lie; one folder for one matrix.
    part : int, default 2 * BAND
        Images on a side of a part.
    n_jobs : int, optional
        Processes side by side.
    """
    if part < 1:
        raise InvalidInput(f"`part` must be at least 1; got part={part}.")
    plan = KernelPlan.of(kernel, x, metric)
    if z is not None:
        plan.check(z, "z")
    shape = (len(x), len(x if z is None else z))
    if out is not None and out.shape != shape:
        raise InvalidInput(f"`out` must have the shape {shape}; got {out.shape}.")
    # memory from torch, which is aligned: products with the matrix do not depend on where it happens to lie
    target = torch.empty(shape, dtype=torch.float64).numpy() if out is None else out
    blocks = list(blocks_of(shape, part, symmetric=z is None))
    compute = partial(part_values, x=x, z=z, kernel=kernel, metric=metric, dtype=dtype, part=part)
    parts = GramFiles(folder, fingerprint(x, z, metric, words=f"{kernel} {dtype} {part} {__version__}"))
    missing = [block for block in blocks if not is_regular(parts.file(block))]
    label = f"Kernel, {len(missing)} of {len(blocks)} parts"
    for index, values in finished_tasks(compute, missing, label=label, n_jobs=n_jobs, show=show):
        parts.write(missing[index], values)
    for i, j in blocks:
        stored = parts.read((i, j))
        values = compute((i, j)) if stored is None else stored
        if stored is None:  # damaged: one part is soon computed again
            parts.write((i, j), values)
        target[i : i + part, j : j + part] = values
        if z is None:
            target[j : j + part, i : i + part] = values.T
    return torch.from_numpy(target)


@dataclass(frozen=True)
class GramFiles:
    """The files of one matrix; each holds a checksum, its place, and the name of its matrix."""

    folder: Path
    matrix: str

    def file(self, block: Block) -> Path:
        """Where a part lies, or will."""
        return self.folder / f"part-{block[0]}-{block[1]}.safetensors"

    def write(self, block: Block, values: np.ndarray) -> None:
        """Write a part, whole or not at all."""
        with whole_file(self.file(block)) as path:
            tensors = {"values": torch.from_numpy(np.ascontiguousarray(values))}
            save_sealed(path, tensors, {"matrix": self.matrix, "block": str(block)})

    def read(self, block: Block) -> np.ndarray | None:
        """The values of a part; None if its file is damaged."""
        try:
            file = load_sealed(self.file(block))
        except InvalidInput:
            return None
        if file.words != {"matrix": self.matrix, "block": str(block)}:
            raise InvalidInput(
                f"`folder` must hold parts of one matrix; {self.file(block)} is of another kernel, of other "
                "images, or of another place. Choose another folder."
            )
        values: np.ndarray = file.tensors["values"].numpy()
        return values


def fingerprint(*tensors: Tensor | None, words: str = "") -> str:
    """Return a name by content for tensors and words."""
    digest = hashlib.sha256(words.encode())
    for tensor in tensors:
        if tensor is None:
            digest.update(b"none")
            continue
        digest.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
        # as bytes: NumPy knows no bfloat16
        digest.update(tensor.detach().contiguous().reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
