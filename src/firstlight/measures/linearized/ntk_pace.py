"""What a tangent kernel will take, measured on a few of its images."""

import time
from dataclasses import dataclass

import numpy as np
import torch
from scipy.optimize import nnls
from torch import Tensor, nn

from firstlight._autograd.model_outputs import OutputName
from firstlight.core.errors import InvalidInput
from firstlight.core.result import Result
from firstlight.measures.linearized.ntk import (
    _BLOCK_ELEMENTS,
    Outputs,
    _cotangents,
    _kept_blocks,
    _prepared,
    _reading,
    ntk_gram,
)
from firstlight.models.wrappers import unwrapped

LEAST, MOST = 16, 512  # images that are timed at once: doubled until they take ENOUGH
ENOUGH = 0.5  # CPU seconds


@dataclass(frozen=True, kw_only=True)
class NtkPace(Result):
    """How fast :func:`ntk_gram` goes.

    Parameters
    ----------
    call, image, pair : float
        CPU seconds for a call, to read the gradients of an image, and for the products of a pair of images.
    image_bytes : float
        Held for the gradients of an image.
    rows : int
        Rows of the matrix for an image.
    size : int
        Images in a block.
    element : int
        Bytes of a number.
    """

    call: float
    image: float
    pair: float
    image_bytes: float
    rows: int
    size: int
    element: int

    def seconds(self, n: int) -> float:
        """CPU seconds for the matrix of n images."""
        return self.call + self.image * self.readings(n) + self.pair * n * (n + 1) / 2

    def bytes(self, n: int) -> float:
        """Memory for the matrix of n images and the gradients that are held."""
        held = self.image_bytes * min(n, self.size * (_kept_blocks(int(self.image_bytes * self.size)) + 2))
        return held + float(n * self.rows) ** 2 * self.element

    def readings(self, n: int) -> int:
        """How often the gradients of an image are read: once each while they can be kept."""
        keep = _kept_blocks(int(self.image_bytes * self.size))
        widths = [min(self.size, n - start) for start in range(0, n, self.size)]
        kept, total = set[int](), 0
        for i, width in enumerate(widths):
            total += 0 if i in kept else width
            kept.discard(i)
            for j in range(i + 1, len(widths)):
                if j in kept:
                    continue
                total += widths[j]
                if len(kept) < keep:
                    kept.add(j)
        return total


def ntk_pace(
    model: nn.Module, images: Tensor, *, outputs: Outputs = "trace", output_part: OutputName = None
) -> NtkPace:
    """Time the tangent kernel of a few images: some seconds.

    Parameters
    ----------
    model, outputs, output_part
        As for :func:`ntk_gram`.
    images : Tensor of shape (n, ...)
        Some or all of the images. They are repeated if they are too few to be timed: a cost depends on their number.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU(), nn.Flatten(), nn.Linear(144, 10))
    >>> pace = ntk_pace(model, torch.rand(8, 1, 8, 8), outputs="full")
    >>> pace.rows, pace.bytes(4000) > 4 * 40_000**2
    (10, True)
    """
    if not len(images):
        raise InvalidInput("`images` must hold at least one image; it is empty.")
    ready = _prepared(unwrapped(model))
    parameter = next(ready.parameters())
    given = images[:MOST].to(parameter.device, parameter.dtype)
    with _reading(ready, given, output_part) as reader:
        cotangents = _cotangents(outputs, reader.n_outputs, given)
        reader.choose_forms(len(cotangents), is_trace=outputs == "trace")
        numbers = reader.numbers_per_image(len(cotangents))

    def timed(n: int) -> float:
        part = given[torch.arange(n, device=given.device) % len(given)]
        start = time.process_time()
        ntk_gram(model, part, outputs=outputs, output_part=output_part, show=False)
        return time.process_time() - start

    timed(1)  # the first call of a layer chooses its routines
    most = min(LEAST, len(given))
    while timed(most) < ENOUGH and most < MOST:
        most *= 2
    sizes = sorted({max(1, most // part) for part in (1, 2, 4, 8)})
    spent = np.array([(timed(n) + timed(n)) / 2 for n in sizes])
    parts = np.array([[1, n, n * (n + 1) / 2] for n in sizes])
    call, image, pair = nnls(parts / spent[:, None], np.ones(len(sizes)))[0]  # each size counts as much
    return NtkPace(
        call=float(call),
        image=float(image),
        pair=float(pair),
        image_bytes=float(numbers * given.element_size()),
        rows=1 if outputs == "trace" else len(cotangents),
        size=max(1, _BLOCK_ELEMENTS // numbers),
        element=given.element_size(),
    )
