"""The feature ansatz of what training changed, without what the initial weights contribute."""

import dataclasses
from collections.abc import Mapping
from functools import partial

from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.forward_recorder import Recorder
from firstlight._internal.autograd.layers import AppliedLayer
from firstlight._internal.autograd.model_outputs import demand_finite_weights, run
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight.data.conversion import ImagesLike
from firstlight.measures.feature_ansatz.ansatz import N_NULLS, Ansatz, ansatz_from
from firstlight.measures.feature_ansatz.patch_gradients import N_IMAGES, gradients_at_filters
from firstlight.models.kinds import unwrapped

CENTRED = "change of the filters, trained gradients"
UNMOVED = "training did not move its weights"


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
    >>> import torch
    >>> from firstlight._internal.seeds import global_seed
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
    initial = unwrapped(initial)
    demand_differentiable(initial)
    demand_finite_weights(initial)
    initial, _ = in_full_precision(initial)
    gradients = gradients_at_filters(
        model, data, filters_of=partial(_changes, initial), n_images=n_images, seed=seed,
        label="Gradients of what changed", show=show,
    )  # fmt: skip
    compared = ansatz_from(gradients, draws=draws, seed=seed)
    return dataclasses.replace(
        compared, rows=tuple(dataclasses.replace(row, pair=CENTRED) for row in compared.rows)
    )


def _changes(
    initial: nn.Module, applied: Mapping[str, AppliedLayer], image: Tensor
) -> tuple[dict[str, Float[Tensor, "g k d"]], dict[str, str]]:
    """W - W0 of every layer that moved, and the layers that did not."""
    with evaluating(initial):
        before = run(initial, image.to(next(initial.parameters())), forward=Recorder(initial).discover)
    changes = {}
    for name, layer in applied.items():
        if name not in before or before[name].filters.shape != layer.filters.shape:
            raise InvalidInput(
                f"`initial` must have the architecture of the model; layer {name!r} differs or is missing there."
            )
        changes[name] = layer.filters - before[name].filters
    # a zero matrix correlates with nothing
    moved = {name: change for name, change in changes.items() if change.any()}
    return moved, {name: UNMOVED for name in changes if name not in moved}
