"""Kernel matrices larger than the memory: tiles on disk, and linear systems solved over them."""

import hashlib
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float, Int
from safetensors import safe_open
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import (
    cluster_cores,
    default_jobs,
    finished_tasks,
    map_tasks,
    single_thread,
)
from firstlight._internal.files import whole_file
from firstlight._internal.progress import progress
from firstlight._internal.shapes import Images
from firstlight._internal.tensor_files import load_sealed, save_sealed
from firstlight._internal.untrusted_files import is_regular
from firstlight._internal.version import __version__
from firstlight.kernels.gram import BAND, Block, blocks_of, part_values
from firstlight.kernels.kernel import Kernel
from firstlight.kernels.ridge import solve_by_steps


@dataclass(frozen=True)
class TiledGram:
    r"""Kernel matrix of n images divided by its largest entry: tiles of the upper triangle on disk, in float32.

    It takes 2 n² bytes of disk, 5 GB for 50 000 images, and memory for a few tiles and for the vectors it is
    multiplied with. Float32 changes entries by up to 6e-8 of the largest, so a `ridge` below about 1e-6 is not
    meaningful.

    Parameters
    ----------
    folder : Path
        Where the tiles lie.
    matrix : str
        Name of the matrix by content: images, kernel and metric.
    n, side : int
        Images, and images on a side of a tile.
    scale : float
        The largest entry, by which products are divided.

    Examples
    --------
    >>> import tempfile
    >>> from firstlight.kernels import ConvKernel
    >>> images = torch.rand(6, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     tiles = TiledGram.of(images, kernel=ConvKernel(depth=1), folder=Path(folder), side=4, n_jobs=1)
    ...     tiles.solve(torch.ones(6, 1), ridge=1e-3).shape
    torch.Size([6, 1])
    """

    folder: Path
    matrix: str
    n: int
    side: int
    scale: float

    @classmethod
    def of(
        cls,
        x: Images,
        *,
        kernel: Kernel,
        folder: Path,
        metric: Float[Tensor, "d d"] | None = None,
        dtype: torch.dtype = torch.float32,
        side: int = 2 * BAND,
        n_jobs: int | None = None,
        show: bool | None = None,
    ) -> "TiledGram":
        """Compute the tiles that `folder` does not hold yet, on the cluster if there is one.

        Parameters
        ----------
        x, kernel, metric, dtype, show
            As for :func:`firstlight.kernels.kernel_gram`.
        folder : Path
            One folder for one matrix; a second call with the same arguments goes on where the first was stopped.
        side : int, default 2 * BAND
            Images on a side of a tile.
        n_jobs : int, optional
            Processes side by side.
        """
        if side < 1 or not len(x):
            raise InvalidInput(
                f"`side` must be at least 1 and `x` not empty; got {side} and {len(x)} images."
            )
        name = fingerprint(x, metric, words=f"tiles {kernel} {dtype} {side} {__version__}")
        blocks = list(blocks_of((len(x), len(x)), side, symmetric=True))
        parts, tops = GramFiles(folder, name), dict[Block, float]()
        for block in blocks:
            if is_regular(parts.file(block)) and (values := parts.read(block)) is not None:
                tops[block] = float(values.max())
        missing = [block for block in blocks if block not in tops]
        compute = partial(_tile, x=x, kernel=kernel, metric=metric, dtype=dtype, side=side)
        label = f"Kernel, {len(missing)} of {len(blocks)} tiles"
        for index, values in finished_tasks(compute, missing, label=label, n_jobs=n_jobs, show=show):
            parts.write(missing[index], values)
            tops[missing[index]] = float(values.max())
        return cls(folder, name, len(x), side, max(tops.values()) or 1.0)

    def __matmul__(self, vectors: Float[Tensor, "n k"]) -> Float[Tensor, "n k"]:
        """Product with some columns, in float64; every tile is read once."""
        self._check(vectors, "vectors")
        band = partial(_band_product, self, vectors=vectors.double())
        with single_thread(), ThreadPoolExecutor(default_jobs()) as pool:
            return self._summed(pool.map(band, self._starts), vectors)

    def solve(
        self,
        targets: Float[Tensor, "n k"],
        ridge: float,
        *,
        rank: int = 256,
        tolerance: float = 1e-8,
        most: int = 500,
        first: Float[Tensor, "_n _k"] | None = None,
        listen: Callable[[Tensor], None] = lambda coefficients: None,
        show: bool | None = None,
    ) -> Float[Tensor, "n k"]:
        r"""Coefficients :math:`(K + \lambda I)^{-1} Y` by conjugate gradients, as for a matrix in memory.

        Parameters
        ----------
        targets, ridge, rank, tolerance, most
            As for :func:`firstlight.kernels.conjugate_gradients`. On a cluster whose workers see `folder` they
            multiply; otherwise this process does.
        first : Tensor of shape (n, k), optional
            Coefficients to begin with, such as the last that `listen` was given before a stop; zeros by default.
        listen : callable, optional
            Called with the coefficients after every step.
        show : bool, optional
            Force the progress bar on or off.
        """
        self._check(targets, "targets")
        if first is not None and (first.shape != targets.shape or not first.isfinite().all()):
            raise InvalidInput(
                f"`first` must be finite and of the shape of `targets`, {tuple(targets.shape)}; got "
                f"{tuple(first.shape)}."
            )

        def heed(coefficients: Tensor) -> None:
            bar.advance()
            listen(coefficients)

        multiply = self._multiply_there if self._is_shared() else self.__matmul__
        with progress("Conjugate gradients", total=None, unit="steps", show=show) as bar:
            return solve_by_steps(
                multiply, self.columns, targets, ridge, rank=rank, tolerance=tolerance, most=most,
                rounding=1e-6, first=first, listen=heed,
            )  # fmt: skip

    def columns(self, indices: Int[Tensor, " r"]) -> Float[Tensor, "n r"]:
        """Some columns, in float64."""
        columns = torch.empty(self.n, len(indices), dtype=torch.float64)
        for i, j in blocks_of((self.n, self.n), self.side, symmetric=True):
            chosen = ((indices >= j) & (indices < j + self.side)).nonzero().flatten()
            mirrored = ((indices >= i) & (indices < i + self.side)).nonzero().flatten()
            if len(chosen) or len(mirrored):
                tile = self.tile((i, j))
                columns[i : i + self.side, chosen] = tile[:, indices[chosen] - j]
                columns[j : j + self.side, mirrored] = tile[indices[mirrored] - i].T
        return columns / self.scale

    def tile(self, block: Block, space: Float[Tensor, " entries"] | None = None) -> Float[Tensor, "a b"]:
        """One tile in float64, before the division by `scale`; in `space`, if given."""
        # the checksum was compared when the matrix was opened: once per iteration would cost more than the product
        with safe_open(GramFiles(self.folder, self.matrix).file(block), framework="pt") as file:
            values: Tensor = file.get_tensor("values")
            if space is None:
                return values.double()
            return space[: values.numel()].view(values.shape).copy_(values)

    @property
    def _starts(self) -> range:
        return range(0, self.n, self.side)

    def _check(self, vectors: Tensor, name: str) -> None:
        if len(vectors) != self.n or not vectors.isfinite().all():
            raise InvalidInput(
                f"`{name}` must hold a finite row for each of the {self.n} images; got {tuple(vectors.shape)}."
            )

    def _summed(self, bands: Iterator[Tensor], vectors: Tensor) -> Tensor:
        """Add the bands in their order, so that the bits do not depend on who computed them."""
        total = torch.zeros(vectors.shape, dtype=torch.float64)
        for start, band in zip(self._starts, bands, strict=True):
            total[start:] += band
        return total / self.scale

    def _is_shared(self) -> bool:
        """Whether the workers of a cluster see the tiles."""
        cores = cluster_cores()
        last = GramFiles(self.folder, self.matrix).file((self._starts[-1], self._starts[-1]))
        return cores is not None and all(map_tasks(is_regular, [last] * (4 * cores), label="", show=False))

    def _multiply_there(self, vectors: Tensor) -> Tensor:
        band = partial(_band_product, self, vectors=vectors)
        return self._summed(iter(map_tasks(band, self._starts, label="", show=False)), vectors)


def _tile(
    block: Block, x: Tensor, kernel: Kernel, metric: Tensor | None, dtype: torch.dtype, side: int
) -> np.ndarray:
    values = part_values(block, x=x, z=None, kernel=kernel, metric=metric, dtype=dtype, part=side)
    return values.astype(np.float32)


def _band_product(tiles: TiledGram, start: int, vectors: Tensor) -> Tensor:
    """What the tiles from `start` on the diagonal to the right add to the product, from row `start` on."""
    # vectors lie in rows: with few of them BLAS takes less than half the time that columns need
    side, rows = tiles.side, vectors.T.contiguous()
    own = rows[:, start : start + side]
    product = torch.zeros(vectors.shape[1], tiles.n - start, dtype=torch.float64)
    # All tiles in one place: Dask has its workers give memory back at once, and fresh pages for every tile took more
    # than half of a step there
    space = torch.empty(side * side, dtype=torch.float64)
    for j in range(start, tiles.n, side):
        tile = tiles.tile((start, j), space)
        # rows `start` of K times all of v to the right of the diagonal ...
        product[:, :side] += rows[:, j : j + side] @ tile.T
        if j > start:
            # ... and the mirror of the same tile, so that each is read once
            product[:, j - start : j - start + side] += own @ tile
    return product.T


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
