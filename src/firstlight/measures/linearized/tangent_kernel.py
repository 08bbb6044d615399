"""The empirical tangent kernel: inner products of the gradients of a network's outputs."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_outputs import (
    OutputName,
    demand_finite_weights,
    demand_one_image_at_a_time,
)
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._internal.autograd.weight_gradients import Gradients, WeightGradients, add_product
from firstlight._internal.devices import follows_device
from firstlight._internal.environment import free_memory
from firstlight._internal.errors import InvalidInput
from firstlight._internal.progress import progress
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.models.kinds import unwrapped

Outputs = str | int
_BLOCK_ELEMENTS = 32_000_000  # of gradients held at a time, twice between two sets: 256 MB of float64
_KEPT_BYTES = (
    2_000_000_000  # of gradients kept so that no image is read twice, if a quarter of the free memory allows
)
_TILE_ROWS = 512  # of the Gram matrix, so that the elementwise passes stay in the cache


@follows_device
def ntk_gram(
    model: nn.Module,
    images: ImagesLike,
    other: ImagesLike = None,
    *,
    outputs: Outputs = "trace",
    block: int | None = None,
    output_part: OutputName = None,
    label: str = "Tangent kernel",
    show: bool | None = None,
) -> Float[Tensor, "rows columns"]:
    r"""Empirical neural tangent kernel between the images, or between them and others.

    .. math:: \Theta_{(i,o),(j,o')} = \langle \nabla_w f_o(x_i), \nabla_w f_{o'}(x_j) \rangle

    Summed layer by layer, so that no gradient with respect to all weights is ever held. A layer with
    inputs a and gradients g at its output contributes
    :math:`\sum_{p,q} \langle a_p, a'_q\rangle \langle g_p, g'_q\rangle`; where it has many positions, its
    own gradients are written out instead, whichever is cheaper. Layers that are used twice, share a
    weight or have more than one position are exact; parameters that are not held by a convolution, a
    linear layer or a batch normalisation are read by plain backward passes, exactly too.

    Parameters
    ----------
    model : torch.nn.Module
        Any network that maps images to outputs, image by image. Trainable parameters count. Runs in
        evaluation mode and is left as it was.
    images, other
        Images as the model expects them, in any form that :func:`firstlight.data.as_images` takes.
    outputs : Outputs, default 'trace'
        "full" gives rows for every image and output, images outer and outputs inner; "trace" sums over
        equal outputs, one row per image (divide by the number of outputs for the mean); a number takes
        that output alone. "full" takes the square of the number of outputs more memory than "trace"; more than is
        free is refused.
    block : int, optional
        Images whose gradients are multiplied at a time; by default as many as 256 MB hold. Gradients of up to
        2 GB (a quarter of the free memory) are kept; beyond, images are read again for every pair of blocks.
    output_part : OutputName, optional
        Which part to take if the model returns a tuple (number) or a dictionary (key).
    label, show : str or bool
        Label of the progress bar, and whether to show it.

    Returns
    -------
    Tensor of shape (rows, columns)
        In the precision of the model, at least float32: use ``model.double()`` for float64, which small
        eigenvalues need.
        Symmetric to the bit without `other`.

    Notes
    -----
    One backward pass per output and image that computes no weight gradients; then, for LeNet with 10
    outputs, 20 times fewer multiplications than the product of two Jacobians.

    References
    ----------
    .. [1] Linearized, section 2. Rows run over the images, and for each image over its outputs.

    Examples
    --------
    >>> model = nn.Linear(2, 3, bias=False)
    >>> ntk_gram(model, torch.eye(2), outputs="trace")
    tensor([[3., 0.],
            [0., 3.]])
    """
    if block is not None and block < 1:
        raise InvalidInput(f"`block` must be at least 1; got block={block}.")
    model = _prepared(unwrapped(model))
    left = _images(images, model, "images")
    right = left if other is None else _images(other, model, "other")
    with _reading(model, left, output_part) as reader:
        rows = _cotangents(outputs, reader.n_outputs, left)
        is_trace = outputs == "trace"
        reader.choose_forms(len(rows), is_trace=is_trace)
        size = block or max(1, _BLOCK_ELEMENTS // reader.numbers_per_image(len(rows)))
        per_image = 1 if is_trace else len(rows)
        _demand_memory(len(left) * per_image, len(right) * per_image, left.element_size())
        gram = left.new_zeros(len(left) * per_image, len(right) * per_image)
        held = size * reader.numbers_per_image(len(rows)) * left.element_size()
        blocks = _Blocks(reader, rows, size, per_image, is_trace, keep=_kept_blocks(held))
        # row by row: gradients of the left block are read once for a whole row of blocks
        starts = [(i, j) for i in range(0, len(left), size) for j in range(0, len(right), size)]
        if other is None:  # the rest follows from symmetry
            starts = [(i, j) for i, j in starts if i <= j]
        with progress(label, total=len(starts), unit="blocks", show=show) as bar:
            for i, j in starts:
                row_gradients, column_gradients = blocks.gradients(
                    left, right, i, j, is_symmetric=other is None
                )
                # Θ = J Jᵀ = Σ_l J_l J_lᵀ: layer by layer, so that never more than one layer's product is in the cache
                for name, gradients in row_gradients.items():
                    half = row_gradients is column_gradients
                    blocks.add(gradients, column_gradients[name], gram, i, j, half=half)
                bar.advance(1)
    if other is None:
        _mirror(gram)
    return gram


@follows_device
def jacobian(
    model: nn.Module, images: ImagesLike, *, outputs: Outputs = "full", output_part: OutputName = None
) -> Float[Tensor, "rows weights"]:
    r"""Gradients :math:`J = \partial f/\partial w` written out, over all trainable weights in their order.

    Rows are ordered as those of :func:`ntk_gram`; "trace" is not defined here. Memory: rows times
    weights, so only for few images or small networks.
    """
    if outputs == "trace":
        raise InvalidInput("`outputs` must be 'full' or a number for a Jacobian; got 'trace'.")
    model = _prepared(model)
    x = _images(images, model, "images")
    with _reading(model, x, output_part) as reader:
        parts = reader.by_parameter(x, _cotangents(outputs, reader.n_outputs, x))
        return torch.cat([part.flatten(0, 1).flatten(1) for part in parts.values()], 1)


def _prepared(model: nn.Module) -> nn.Module:
    """The model in at least single precision, once it is known that it has gradients."""
    demand_differentiable(model)
    demand_finite_weights(model)
    return in_full_precision(model)[0]


@contextmanager
def _reading(model: nn.Module, images: Tensor, output_part: OutputName) -> Iterator[WeightGradients]:
    with torch.inference_mode(False), torch.enable_grad(), evaluating(model):
        demand_one_image_at_a_time(model, images[:2], output=output_part)
        yield WeightGradients(model, images, output=output_part)


def _demand_memory(rows: int, columns: int, size: int) -> None:
    """Refuse a matrix that memory does not hold before anything is computed."""
    needed, free = rows * columns * size, free_memory()
    if needed > free:
        raise InvalidInput(
            f"The tangent kernel of {rows} x {columns} numbers needs {needed / 1e9:.1f} GB of memory, but only "
            f"{free / 1e9:.1f} GB are free. Use fewer images or outputs='trace', or allow more with "
            "FIRSTLIGHT_MEMORY_GB."
        )


def _kept_blocks(held: int) -> int:
    """Number of blocks of `held` bytes that may be kept."""
    return int(min(_KEPT_BYTES, free_memory() / 4) // max(held, 1))


class _Blocks:
    """Gradients of two blocks of images at a time, and their place in the Gram matrix.

    The rows of the left block serve a whole row of blocks, so they are read once. Up to `keep` right blocks stay
    until they are needed again; the memory of the others is used again and again.
    """

    def __init__(
        self,
        reader: WeightGradients,
        cotangents: Tensor,
        size: int,
        per_image: int,
        is_trace: bool,
        *,
        keep: int = 0,
    ) -> None:
        self.reader, self.cotangents, self.size = reader, cotangents, size
        self.per_image, self.is_trace, self.keep = per_image, is_trace, keep
        self._left: tuple[int, dict[str, Gradients]] | None = None
        self._right: dict[str, Gradients] | None = None
        self._kept: dict[int, dict[str, Gradients]] = {}

    def gradients(
        self, left: Tensor, right: Tensor, i: int, j: int, *, is_symmetric: bool
    ) -> tuple[dict[str, Gradients], dict[str, Gradients]]:
        """Gradients of the images from `i` and from `j` on; the same object twice on the diagonal."""
        if self._left is None or self._left[0] != i:
            before = self._kept.pop(i, None) if is_symmetric else None  # a row begins with its diagonal block
            self._left = i, before or self.reader.read(left[i : i + self.size], self.cotangents)
        if is_symmetric and i == j:
            return self._left[1], self._left[1]
        if j not in self._kept and len(self._kept) < self.keep:
            self._kept[j] = self.reader.read(right[j : j + self.size], self.cotangents)
        if j in self._kept:
            return self._left[1], self._kept[j]
        self._right = self.reader.read(right[j : j + self.size], self.cotangents, reuse=self._right)
        return self._left[1], self._right

    def add(self, left: Gradients, right: Gradients, gram: Tensor, i: int, j: int, *, half: bool) -> None:
        """Add the products of one layer to their block of the Gram matrix."""
        rows, columns = (slice(k * self.per_image, (k + self.size) * self.per_image) for k in (i, j))
        _add_tiles(left, right, gram[rows, columns], self.per_image, is_trace=self.is_trace, half=half)


def _add_tiles(
    left: Gradients,
    right: Gradients,
    out: Float[Tensor, "a b"],
    per_image: int,
    *,
    is_trace: bool,
    half: bool,
) -> None:
    """Add one layer, tile by tile; of a symmetric block only tiles on and above the diagonal."""
    step = max(1, _TILE_ROWS // per_image)
    n, m = out.shape[0] // per_image, out.shape[1] // per_image
    for i in range(0, n, step):
        for j in range(i if half else 0, m, step):
            # tiles whose product stays in the cache: a whole block of the Gram matrix would not
            tile = out[i * per_image : (i + step) * per_image, j * per_image : (j + step) * per_image]
            add_product(left[i : i + step], right[j : j + step], tile, is_trace=is_trace)


def _mirror(gram: Float[Tensor, "a a"]) -> None:
    """Copy the upper triangle to the lower one, in place and by tiles."""
    step = _TILE_ROWS
    for i in range(0, len(gram), step):
        diagonal = gram[i : i + step, i : i + step]
        # tiles on the diagonal were computed whole; their lower half is replaced by the mirror of the upper
        diagonal.copy_(diagonal.triu() + diagonal.triu(1).T)
        gram[i + step :, i : i + step] = gram[i : i + step, i + step :].T


def _cotangents(outputs: Outputs, n_outputs: int, like: Tensor) -> Float[Tensor, "o c"]:
    """Combinations of the outputs to differentiate, one per row."""
    # one row per output: "trace" sums the same products, ΣJ_oJ_oᵀ, that "full" keeps apart
    identity = torch.eye(n_outputs, dtype=like.dtype, device=like.device)
    if outputs in ("full", "trace"):
        return identity
    if isinstance(outputs, str | bool) or not -n_outputs <= outputs < n_outputs:
        raise InvalidInput(
            f"`outputs` must be 'full', 'trace' or one of the model's {n_outputs} outputs by number; "
            f"got outputs={outputs!r}."
        )
    return identity[outputs][None]


def _images(images: ImagesLike, model: nn.Module, name: str) -> Tensor:
    images = tensor_or_images(images)
    x = images.x if isinstance(images, ImageData) else images
    if x.ndim < 2 or len(x) == 0:
        raise InvalidInput(f"`{name}` must hold at least one image, n first; got the shape {tuple(x.shape)}.")
    if not x.isfinite().all():
        raise InvalidInput(f"`{name}` holds NaN or infinite pixels. Remove or repair those images first.")
    parameter = next(model.parameters(), None)
    with torch.inference_mode(False):  # what is made in inference mode cannot take part in gradients
        ready = x.clone() if x.is_inference() else x.detach()
        return ready if parameter is None else ready.to(parameter.device, parameter.dtype)
