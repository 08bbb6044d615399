"""The feature ansatz of what training changed, without what the initial weights contribute."""

import dataclasses
from collections.abc import Mapping
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._autograd.gradient_accumulators import Accumulators
from firstlight._autograd.layers import AppliedLayer, range_basis
from firstlight._autograd.model_outputs import demand_finite_weights, demand_one_image_at_a_time
from firstlight._autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._autograd.recorder import Recorder
from firstlight.core.devices import follows_device
from firstlight.core.errors import InvalidInput
from firstlight.core.progress import progress
from firstlight.core.seeds import generator_from
from firstlight.data.conversion import ImagesLike
from firstlight.measures.feature_ansatz.ansatz import N_NULLS, Ansatz, ansatz_from
from firstlight.measures.feature_ansatz.patch_agop import (
    N_IMAGES,
    LayerGradients,
    PatchGradients,
    _backward,
    _batches,
    _block_size,
    _discovered,
    _forward,
    _peek,
    _without_gradients,
)
from firstlight.models.wrappers import unwrapped

CENTRED = "change of the filters, trained gradients"
UNMOVED = "training did not move its weights"


class _ChangedRange(Accumulators):
    """Sums gradients over the outputs that the change of the weights reaches, not the weights themselves.

    Where k > d only d combinations of the outputs are kept. Those of W would lose what W - W0 adds.
    """

    def __init__(
        self, layers: Mapping[str, AppliedLayer], changes: Mapping[str, Tensor], generator: torch.Generator
    ) -> None:
        super().__init__(layers, generator=generator)
        self._bases = {name: range_basis(changes[name]) for name in layers}


@follows_device
def centred_ansatz(
    model: nn.Module,
    data: ImagesLike,
    *,
    initial: nn.Module | None = None,
    draws: int = N_NULLS,
    n_images: int = N_IMAGES,
    seed: int = 0,
    show: bool | None = None,
) -> Ansatz:
    r"""Correlation of :math:`\bar W^\top \bar W` with :math:`\bar W^\top Q \bar W`, where :math:`\bar W = W - W_0`.

    The plain ansatz compares :math:`W^\top W` with :math:`W^\top Q W`. Where Q is nearly isotropic both are
    alike before any training, since both hold the same random :math:`W_0`. Its share is taken out here. Gradient
    steps give :math:`\bar W = -\eta \sum_t \frac1n \sum_x \delta_t x^\top`, with :math:`\delta_t` the gradient of the
    loss at the layer's output: the correlation is high if these deltas point where the gradients of the outputs
    do that Q sums.

    *What a practitioner does with the number:* a layer above its null was moved along the directions that the
    outputs depend on; for a layer at its null, try whether freezing it costs any accuracy.

    Parameters
    ----------
    model : torch.nn.Module
        The trained network.
    data : Tensor, ImageData, DataLoader, iterable of batches, and others
        As for :func:`firstlight.measures.feature_ansatz.patch_gradients`.
    initial : torch.nn.Module, optional
        The same network before training. There is no answer without it, and the error says so.
    draws : int, default N_NULLS
        Number of random rotations of Q for the null.
    n_images : int, default N_IMAGES
        Maximum number of images.
    seed : int, default 0
        Seed for the null and for random output combinations.
    show : bool, optional
        Force the progress bar on or off.

    Returns
    -------
    Ansatz
        One row per layer that moved, of the pair "change of the filters, trained gradients". Layers that did
        not move are listed in `skipped`. The output layer is 1 by definition. Cost as for `patch_gradients`.

    References
    ----------
    .. [1] arXiv 2402.05271, where Q is taken at the trained weights, as here. The rotated null is ours.

    Examples
    --------
    >>> from firstlight.core.seeds import global_seed
    >>> with global_seed("example", 0):
    ...     before, after = (nn.Sequential(nn.Linear(4, 3), nn.Tanh(), nn.Linear(3, 2)) for _ in range(2))
    >>> rows = centred_ansatz(after, torch.eye(4), initial=before).rows
    >>> [(row.layer, row.is_output) for row in rows]
    [('0', False), ('2', True)]
    """
    if initial is None:
        raise InvalidInput(
            "`initial` must be the network before its training: what changed cannot be told without. Keep a copy "
            "before you train, or rebuild it from the same seed."
        )
    model, initial = unwrapped(model), unwrapped(initial)
    for one in (model, initial):
        demand_differentiable(one)
        demand_finite_weights(one)
    model, note = in_full_precision(model)
    initial, _ = in_full_precision(initial)
    gradients = _changed_gradients(model, initial, data, n_images=n_images, seed=seed, note=note, show=show)
    compared = ansatz_from(gradients, draws=draws, seed=seed)
    return dataclasses.replace(
        compared, rows=tuple(dataclasses.replace(row, pair=CENTRED) for row in compared.rows)
    )


def _changed_gradients(
    model: nn.Module,
    initial: nn.Module,
    data: ImagesLike,
    *,
    n_images: int,
    seed: int,
    note: str,
    show: bool | None,
) -> PatchGradients:
    """Gradients at the outputs of all layers that moved, with the change in the place of the filters."""
    batches, total = _batches(data, model, n_images)
    with torch.inference_mode(False), torch.enable_grad(), evaluating(model), evaluating(initial):
        first, batches = _peek(batches)
        recorder = Recorder(model)
        applied, skipped = _discovered(recorder, first[:1], "all")
        before, _ = _discovered(Recorder(initial), first[:1].to(next(initial.parameters())), "all")
        demand_one_image_at_a_time(model, first[:2], output=None)
        changes = _changes(applied, before)
        skipped |= {name: UNMOVED for name, change in changes.items() if not change.any()}
        moved = {name: layer for name, layer in applied.items() if name not in skipped}
        sums = _ChangedRange(moved, changes, generator_from("output signs", seed))
        block = _block_size(sum(recorder.elements[name] for name in moved))
        recorder.tap(moved, sums.receive)
        with progress("Gradients of what changed", total=total, unit="images", show=show) as bar:
            for part in (p for batch in batches for p in torch.split(batch, block) if moved):
                directions = _forward(recorder, part, sums, "auto", None)
                _backward(recorder, directions, sums, bar.advance, len(part))
    skipped |= _without_gradients(sums)
    return PatchGradients(
        layers=tuple(
            _gradients(layer, changes[name], sums) for name, layer in moved.items() if name not in skipped
        ),
        skipped=skipped,
        n_images=int(sums.counts.sum()),
        n_outputs=sums.n_outputs,
        n_passes=sums.n_passes if moved else 0,
        is_exact=sums.is_exact if moved else True,
        note=note,
    )


def _changes(
    applied: Mapping[str, AppliedLayer], before: Mapping[str, AppliedLayer]
) -> dict[str, Float[Tensor, "g k d"]]:
    changes = {}
    for name, layer in applied.items():
        if name not in before or before[name].filters.shape != layer.filters.shape:
            raise InvalidInput(
                f"`initial` must have the architecture of the model; layer {name!r} differs or is missing there."
            )
        changes[name] = layer.filters - before[name].filters
    return changes


def _gradients(layer: AppliedLayer, change: Float[Tensor, "g k d"], sums: Accumulators) -> LayerGradients:
    fields: dict[str, Any] = {"name": layer.name, "kind": layer.kind, "shape": layer.shape}
    return LayerGradients(
        filters=change,
        parts=sums.parts(layer.name),
        counts=sums.counts.clone(),
        sensitivity=sums.sensitivity(layer.name),
        is_output=layer.name in sums.output_layers,
        **fields,
    )
