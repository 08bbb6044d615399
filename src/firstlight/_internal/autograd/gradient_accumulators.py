"""Sums of outer products of gradients, one small matrix per layer, group and set of images."""

import copy
import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.autograd.layers import AppliedLayer, range_basis
from firstlight._internal.autograd.model_outputs import N_EXACT, N_LEADING, N_RANDOM, Directions

N_SETS = 8  # disjoint sets of images: what a standard error is estimated from
_BYTES = 600_000_000
ORDINARY = 40  # powers of two around 1 within which squares keep all their digits in float32


class Accumulators:
    """Receives gradients at the outputs of layers and keeps the sums of their outer products.

    Parameters
    ----------
    layers : mapping of str to AppliedLayer
        By name.
    filters : mapping of str to Tensor
        Filters that take the place of a layer's own, by its name: where k > d, gradients are kept as far as they
        lie in the range of these.
    generator : torch.Generator
        Generator of random output combinations.

    Notes
    -----
    Images are dealt to the sets block by block in turn. Sums are kept in the precision of the model,
    at least float32; each holds few enough terms that this costs no digit that the gradients had. Gradients whose
    squares float32 cannot hold, as in the first layers of untrained deep networks, are multiplied by a power of two
    meanwhile, which is exact.
    """

    def __init__(
        self,
        layers: Mapping[str, AppliedLayer],
        *,
        filters: Mapping[str, Tensor] = {},
        generator: torch.Generator,
    ) -> None:
        self.layers = dict(layers)
        self.generator = generator
        self._bases: dict[str, Tensor | None] = {}
        self._sizes: dict[str, tuple[int, int]] = {}
        for name, layer in layers.items():
            rows = filters.get(name, layer.filters)
            g, k, d = rows.shape
            # with k > d, g enters the result as UᵀQU only, U an orthonormal basis of the range of W: d x d sums do
            self._bases[name], self._sizes[name] = range_basis(rows), (g, min(k, d))
        entries = sum(g * r * r for g, r in self._sizes.values())
        self.n_sets = max(2, min(N_SETS, _BYTES // (8 * max(entries, 1))))
        self.counts = torch.zeros(self.n_sets, dtype=torch.float64)
        self.reached: set[str] = set()
        self.wanted: frozenset[str] = frozenset(layers)
        self.output_layers: set[str] = set()
        self.directions: Directions | None = None
        self.n_outputs = 0
        self._sums: dict[str, Tensor] = {}
        self._scales: dict[str, float] = {}
        self._bounds: list[tuple[int, int, int]] = []
        self._identity: tuple[str, int] | None = None
        self._dealt = 0

    @property
    def n_passes(self) -> int:
        """Backward passes per image; 0 before the first."""
        return 0 if self.directions is None else self.directions.n_passes

    @property
    def is_exact(self) -> bool:
        """Whether all outputs are summed."""
        return self.directions is None or self.directions.n_random == 0

    def begin(
        self, *, n_images: int, n_outputs: int, directions: Directions, identity: tuple[str, int] | None
    ) -> None:
        """Note a forward pass: its images are dealt evenly to the sets, as runs of neighbours.

        `identity` is the call of a linear layer that gave the outputs themselves: the outer products at
        its output sum to the identity, whichever directions are taken.
        """
        self.n_outputs, self.directions, self._identity = n_outputs, directions, identity
        order = [(self._dealt + i) % self.n_sets for i in range(self.n_sets)]
        share, rest = divmod(n_images, self.n_sets)
        start, self._bounds = 0, []
        for position, index in enumerate(order):
            stop = start + share + (position < rest)
            if stop > start:
                self._bounds.append((index, start, stop))
                self.counts[index] += stop - start
            start = stop
        self._dealt += rest
        if identity is not None:
            self._add_identity(identity[0])

    def receive(self, name: str, call: int, gradient: Tensor) -> None:
        """Add the outer products of one gradient, set by set, if the layer is among those `wanted` in this pass."""
        if name not in self.wanted:
            return
        self.reached.add(name)
        if (name, call) == self._identity:  # its sum over all outputs is the identity: already added
            return
        layer = self.layers[name]
        if gradient.ndim < layer.weight.ndim:  # the model shows this layer one image at a time
            gradient = gradient[None]
        scale = self._scale_of(name, gradient)
        sums = self._sums_of(name, gradient)
        # A model may fold other axes into the first one (windows of an attention), or put positions first.
        # Every row is counted once all the same; only which set of images it counts for is then a guess.
        n = self._bounds[-1][2]
        for index, start, stop in self._bounds:
            some = gradient[start * len(gradient) // n : stop * len(gradient) // n]
            if not len(some):
                continue
            rows = _rows(some, layer.groups, is_linear=layer.is_linear)
            rows = rows if scale == 1 else rows * scale
            # g → Uᵀg → Σ g gᵀ over images and positions, one matrix product per group
            if (basis := self._bases[name]) is not None:
                rows = basis.to(rows).mT @ rows
            sums[index].baddbmm_(rows, rows.mT)

    def snapshot(self) -> "Accumulators":
        """A copy of the sums, to be read while these go on."""
        taken = copy.copy(self)
        taken._sums = {name: sums.clone() for name, sums in self._sums.items()}
        return taken

    def parts(self, name: str) -> Float[Tensor, "s g r r"]:
        """Return the sums of one layer, on the CPU, and clear them."""
        parts = self._sums.pop(name).cpu()
        if (scale := self._scales.get(name, 1.0)) != 1:
            parts = parts.double() / scale**2
        for part in parts:  # rounding leaves the products asymmetric in the last bit
            part.copy_((part + part.mT) / 2)
        return parts

    def _add_identity(self, name: str) -> None:
        sums = self._sums_of(name, self.layers[name].weight)
        for index, start, stop in self._bounds:
            sums[index].diagonal(dim1=-2, dim2=-1).add_(stop - start)

    def _scale_of(self, name: str, gradient: Tensor) -> float:
        """Power of two that brings the gradients of a layer near 1, or 1 if their squares are ordinary numbers."""
        if name not in self._scales:
            largest = float(gradient.detach().abs().max()) if gradient.numel() else 0.0
            if largest == 0 or not math.isfinite(largest):
                return 1.0
            exponent = math.frexp(largest)[1]
            is_ordinary = abs(exponent) <= ORDINARY or name in self._sums  # the identity may be in it already
            self._scales[name] = 1.0 if is_ordinary else 2.0 ** max(-126, min(126, -exponent))
        return self._scales[name]

    def _sums_of(self, name: str, like: Tensor) -> Tensor:
        if name not in self._sums:
            dtype = torch.promote_types(like.dtype, torch.float32)
            groups, r = self._sizes[name]
            self._sums[name] = torch.zeros(self.n_sets, groups, r, r, dtype=dtype, device=like.device)
        return self._sums[name]


def _rows(gradient: Tensor, groups: int, *, is_linear: bool) -> Float[Tensor, "g k m"]:
    """One row per filter of a group, over all images and positions."""
    gradient = gradient.to(torch.promote_types(gradient.dtype, torch.float32))
    filters_first = gradient.movedim(-1 if is_linear else 1, 0)
    return filters_first.reshape(groups, filters_first.shape[0] // groups, -1)


# gradients per row of Q: 64 lowered correlations of a ResNet-50 by 0.01, up to four standard errors
SAMPLES = 256

WORTH = 1_000_000_000  # gradients: below, all passes take a few seconds, and nothing need be estimated


@dataclass(frozen=True)
class ReducedPasses:
    """Layers for which random combinations of the outputs stand for all of them.

    Parameters
    ----------
    layers : frozenset of str
        Their names.
    n_passes : int
        Random combinations per image.
    """

    layers: frozenset[str]
    n_passes: int

    def directions(self, n_outputs: int) -> Directions:
        """Random signs over all outputs, other ones for every image and pass: unbiased."""
        return Directions(torch.zeros(0, n_outputs, dtype=torch.float64), self.n_passes)


def reduced_passes(
    layers: Mapping[str, AppliedLayer], elements: Mapping[str, int], *, n_images: int, n_outputs: int
) -> tuple[ReducedPasses, ...]:
    r"""Layers whose sums are well determined by fewer backward passes, by the number that they need.

    Q of a layer with r rows is a sum of m outer products, m = images x positions x passes. Its noise lowers a
    correlation by about r / m times a number below one, and vanishes beside the standard error over images once
    m is at least 256 r. Where a layer has many positions, few passes give that many: at least two and an eighth of
    the usual number, or twice or four times as many.

    Parameters
    ----------
    layers : mapping of str to AppliedLayer
        By name.
    elements : mapping of str to int
        Numbers that each of them puts out for one image.
    n_images, n_outputs : int
        Of the measurement, and of the model.

    Returns
    -------
    tuple of ReducedPasses
        Most passes first; layers that need the usual number are in none of them. Empty if all passes are cheap.
    """
    if n_images * n_outputs * sum(elements[name] for name in layers) < WORTH:
        return ()
    usual = n_outputs if n_outputs <= N_EXACT else N_LEADING + N_RANDOM
    few = max(2, usual // 8)
    steps = [few * factor for factor in (1, 2, 4) if few * factor < usual]
    groups: dict[int, list[str]] = {}
    for name, layer in layers.items():
        filters, patch = layer.weight.shape[0], layer.weight[0].numel()
        # images x positions: every position gives one sample of g per pass
        samples = n_images * (elements[name] // filters)
        needed = SAMPLES * min(filters // layer.groups, patch)
        enough = next((step for step in steps if samples * step >= needed), None)
        if enough is not None:
            groups.setdefault(enough, []).append(name)
    return tuple(ReducedPasses(frozenset(groups[step]), step) for step in sorted(groups, reverse=True))
