"""What a kernel matrix or a recursive feature machine will take, measured on a few of its images."""

import math
import time
from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight.core.parallel import single_thread
from firstlight.core.result import Result
from firstlight.core.shapes import Images
from firstlight.kernels import large
from firstlight.kernels.agop import GROUP, MEMORY, kernel_agop
from firstlight.kernels.gram import BAND, gram
from firstlight.kernels.lanes import LANES
from firstlight.kernels.spec import ConvKernel, Kernel
from firstlight.kernels.tiles import Columns, Plan

MATRIX = 600  # side of the matrix that times the linear algebra


@dataclass(frozen=True, kw_only=True)
class Price(Result):
    """CPU seconds, and bytes of memory beyond the images."""

    seconds: float
    bytes: float

    def __str__(self) -> str:
        amount = (
            f"{self.seconds:.0f} CPU seconds"
            if self.seconds < 600
            else f"{self.seconds / 3600:.1f} CPU hours"
        )
        return f"{amount}, {self.bytes / 1e9:.1f} GB"


@dataclass(frozen=True, kw_only=True)
class Rates(Result):
    """Seconds of the parts of a job on one thread, for images of one shape and one kernel.

    Parameters
    ----------
    image : float
        To prepare an image.
    pair : float
        For a value of the kernel.
    slope : float
        For the gradients of one value, for all outputs; 0 for kernels without gradients.
    factor, spectrum : float
        For a Cholesky factor and for a decomposition, each divided by the cube of the size.
    image_bytes : float
        Held for an image that is ready.
    lanes : int, default LANES
        Second images that are always computed together; 1 where every pair is for itself, as in pooled kernels.

    Examples
    --------
    >>> rates = Rates(image=0, pair=1e-5, slope=1e-4, factor=1e-11, spectrum=1e-10, image_bytes=1e5)
    >>> str(rates.gram(10_000))
    '502 CPU seconds, 0.9 GB'
    """

    image: float
    pair: float
    slope: float
    factor: float
    spectrum: float
    image_bytes: float
    lanes: int = LANES

    def gram(self, n: int, m: int | None = None) -> Price:
        """Price of a matrix of n x m values; without `m` of a symmetric one."""
        columns = n if m is None else m
        bands = math.ceil(columns / BAND)
        pairs = n * (n + self.lanes) / 2 if m is None else n * self.lanes * math.ceil(columns / self.lanes)
        rows = bands * n / 2 if m is None else bands * n
        seconds = self.image * (columns + rows) + self.pair * pairs
        return Price(seconds=seconds, bytes=8 * n * columns + 2 * self.image_bytes * min(columns, BAND))

    def agop(self, n: int, m: int | None = None) -> Price:
        """Price of the gradients at m points (default: all centres) of a predictor with n centres."""
        points = n if m is None else m
        return Price(seconds=self.slope * n * points, bytes=3 * MEMORY + self.image_bytes * GROUP)

    def ridge(self, n: int, n_ridges: int) -> Price:
        """Price of the coefficients for some ridges."""
        decomposed = n <= large.FEW or n_ridges >= large.MANY_RIDGES
        seconds = (self.spectrum if decomposed else self.factor * n_ridges) * n**3
        return Price(seconds=seconds, bytes=8.0 * n * n * (large.COPIES if decomposed else 3))

    def rfm(
        self, n: int, *, n_valid: int, rounds: int = 5, agop_images: int | None = None, n_ridges: int = 3
    ) -> Price:
        """Price of :func:`firstlight.kernels.learn_metric`, at most: it may stop before its last round."""
        inner, outer, ridge = self.gram(n), self.gram(n_valid, n), self.ridge(n, n_ridges)
        slopes = self.agop(n, min(n, agop_images or n))
        seconds = (rounds + 1) * (inner.seconds + outer.seconds + ridge.seconds) + rounds * slopes.seconds
        room = 8.0 * n * (n + n_valid) + max(ridge.bytes - 8.0 * n * n, slopes.bytes if rounds else 0.0)
        return Price(seconds=seconds, bytes=room)


def measure_rates(
    x: Images, *, kernel: Kernel, n_outputs: int = 10, dtype: torch.dtype = torch.float32
) -> Rates:
    """Time the parts of a job on a few of its images, on one thread: some seconds, more for pooled kernels.

    Parameters
    ----------
    x : Tensor of shape (n, c, h, w)
        Images of the job; up to 256 are used.
    kernel : Kernel
        Which one.
    n_outputs : int, default 10
        Outputs of the predictor whose gradients are taken.
    dtype : torch.dtype, default torch.float32
        As for :func:`firstlight.kernels.gram`.
    """
    plan = Plan.of(kernel, x, None)
    network = isinstance(kernel, ConvKernel)
    pooled = isinstance(kernel, ConvKernel) and kernel.readout == "gap"
    first, second = _few(x, 0, 8 if pooled else 128), _few(x, 128, 8 if pooled else 64)
    alpha = torch.ones(len(first), n_outputs, dtype=torch.float64)
    slopes = not (isinstance(kernel, ConvKernel) and kernel.pooling)
    with single_thread():
        image = _seconds(lambda: Columns.of(plan, second, dtype, len(second))) / len(second)
        values = _seconds(lambda: gram(first, second, kernel=kernel, dtype=dtype, n_jobs=1, show=False))
        # points are given to full lanes
        points = second[: LANES if network else 4]
        way = _seconds(
            lambda: kernel_agop(first, alpha, points, kernel=kernel, dtype=dtype, n_jobs=1, show=False)
        ) if slopes else 0.0  # fmt: skip
        matrix = torch.eye(MATRIX, dtype=torch.float64) + 1.0
        factor = _seconds(lambda: torch.linalg.cholesky(matrix))
        spectrum = _seconds(lambda: torch.linalg.eigh(torch.rand(MATRIX, MATRIX, dtype=torch.float64)))
    pairs = len(first) * len(second)
    return Rates(
        image=image,
        pair=max(values - image * (len(first) + len(second)), 0.1 * values) / pairs,
        slope=way / (len(first) * len(points)),
        factor=factor / MATRIX**3,
        spectrum=spectrum / MATRIX**3,
        image_bytes=plan.positions * plan.dimension * dtype.itemsize * 1.5,
        lanes=1 if pooled else LANES,
    )


def _few(x: Tensor, start: int, count: int) -> Tensor:
    """So many images from `start` on, repeated if there are fewer."""
    return x[(torch.arange(count) + start) % len(x)]


def _seconds(job: Callable[[], object]) -> float:
    """CPU seconds of a job, after a call that loads the machine code: the smallest of three."""
    found = []
    for _ in range(4):
        start = time.process_time()
        job()
        found.append(time.process_time() - start)
    return min(found[1:])
