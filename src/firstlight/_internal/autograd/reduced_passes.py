"""Which layers need fewer backward passes, because their positions are samples enough."""

from collections.abc import Mapping
from dataclasses import dataclass

import torch

from firstlight._internal.autograd.layers import AppliedLayer
from firstlight._internal.autograd.model_outputs import N_EXACT, N_LEADING, N_RANDOM, Directions

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
