"""Which layers need fewer backward passes, because their positions are samples enough."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from firstlight._autograd.layers import AppliedLayer
from firstlight._autograd.model_outputs import N_EXACT, N_LEADING, N_RANDOM, Directions

SAMPLES = (
    64  # gradients per row of Q: with fewer, their noise lowers correlations by more than a standard error
)


@dataclass(frozen=True)
class Thrift:
    """Layers for which random combinations of the outputs stand for all of them.

    Parameters
    ----------
    layers : frozenset of str, default frozenset()
        Their names; empty if all layers need all passes.
    n_passes : int, default 0
        Random combinations per image.
    """

    layers: frozenset[str] = frozenset()
    n_passes: int = 0

    def directions(self, n_outputs: int) -> Directions:
        """Random signs over all outputs, other ones for every image and pass: unbiased."""
        return Directions(torch.zeros(0, n_outputs, dtype=torch.float64), self.n_passes)


ALL_PASSES = Thrift()


def thrift(
    layers: Mapping[str, AppliedLayer], elements: Mapping[str, int], *, n_images: int, n_outputs: int
) -> Thrift:
    r"""Layers whose sums are well determined by an eighth of the backward passes, but at least two.

    Q of a layer with r rows is a sum of m outer products, m = images x positions x passes. Its noise lowers a
    correlation by about r / m times a number below one, and vanishes beside the standard error over images once
    m is at least 64 r. Where a layer has many positions, few passes give that many.

    Parameters
    ----------
    layers : mapping of str to AppliedLayer
        By name.
    elements : mapping of str to int
        Numbers that each of them puts out for one image.
    n_images, n_outputs : int
        Of the measurement, and of the model.
    """
    usual = n_outputs if n_outputs <= N_EXACT else N_LEADING + N_RANDOM
    few = max(2, usual // 8)
    if few >= usual:
        return ALL_PASSES
    names = []
    for name, layer in layers.items():
        filters, patch = layer.weight.shape[0], layer.weight[0].numel()
        rows = min(filters // layer.groups, patch)
        if n_images * (elements[name] // filters) * few >= SAMPLES * rows:
            names.append(name)
    return Thrift(frozenset(names), few) if names else ALL_PASSES
