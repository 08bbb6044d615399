"""What every layer of a network receives, for measures of depth and for probes."""

from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.forward_recorder import Call, Recorder
from firstlight._internal.autograd.layers import chosen_layers
from firstlight._internal.autograd.model_outputs import (
    checked_output,
    demand_finite_outputs,
    demand_finite_weights,
    run,
)
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.seeds import generator_from
from firstlight.models.kinds import unwrapped

OUTPUTS = "outputs"
MOST_FEATURES = 4096  # of a layer: 512 images then take 8 MB in single precision
_BLOCK = 64


@follows_device
def activations(
    model: nn.Module,
    images: Float[Tensor, "n ..."],
    *,
    layers: str | Sequence[str] = "all",
    most: int = MOST_FEATURES,
    seed: int = 0,
) -> dict[str, Float[Tensor, "n f"]]:
    """What each convolution and linear layer receives, and what the model returns.

    The input of a layer, rather than its output, is behind the activation and the pooling: for the last linear
    layer it is what is usually called the features of a network, for the first it is the images.

    *What a practitioner does with it:* pass it on to :func:`class_variation`, :func:`richness`, or a probe such as
    :class:`firstlight.estimators.RFMProbe`.

    Parameters
    ----------
    model : torch.nn.Module
        It runs in evaluation mode, and is left as it was.
    images : Tensor of shape (n, ...)
        As the model expects them.
    layers : str or sequence of str, default 'all'
        "all", "convolutions", or names of layers.
    most : int, default MOST_FEATURES
        Maximum number of features of a layer. Of more, so many are drawn at random, the same for all images.
    seed : int, default 0
        Seed of that draw.

    Returns
    -------
    dict of str to Tensor
        By the name of the layer in the order of the forward pass; the outputs stand last as "outputs". A layer
        that is used twice counts with its first use. In the precision of the model, on the CPU.

    Examples
    --------
    >>> model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8, 3))
    >>> {name: tuple(kept.shape) for name, kept in activations(model, torch.ones(5, 1, 4, 4)).items()}
    {'0': (5, 16), '3': (5, 8), 'outputs': (5, 3)}
    """
    if len(images) == 0 or most < 1:
        raise InvalidInput(
            f"`images` must hold at least one and `most` be positive; got {len(images)} and {most}."
        )
    model = unwrapped(model)
    demand_differentiable(model)
    demand_finite_weights(model)
    model, _ = in_full_precision(model)
    like = next(model.parameters())
    names = layers if isinstance(layers, str) else tuple(layers)
    blocks: dict[str, list[Tensor]] = {}
    with torch.no_grad(), evaluating(model):
        recorder = Recorder(model)
        applied = run(model, images[:1].to(like), forward=recorder.discover)
        chosen = chosen_layers(model, applied, names)
        for part in torch.split(images, _BLOCK):
            seen = _seen(recorder, set(chosen), len(part))
            outputs = checked_output(run(model, part.to(like), forward=recorder.forward), None, n=len(part))
            demand_finite_outputs(model, outputs)
            for name, features in {
                **{name: seen[name] for name in chosen if name in seen},
                OUTPUTS: outputs,
            }.items():
                blocks.setdefault(name, []).append(_some(features.flatten(1), most, seed, name).cpu())
    return {name: torch.cat(parts) for name, parts in blocks.items()}


def _seen(recorder: Recorder, chosen: set[str], n: int) -> dict[str, Tensor]:
    """A dictionary that the next forward pass fills with the inputs of the chosen layers."""
    seen: dict[str, Tensor] = {}

    def look(call: Call) -> None:
        name = call.layer.name
        # an input that does not hold one row per image (windows of an attention) cannot be told apart
        if name in chosen and name not in seen and len(call.inputs) == n:
            seen[name] = call.inputs.detach().clone()

    recorder.look_at(look)
    return seen


def _some(features: Float[Tensor, "n f"], most: int, seed: int, name: str) -> Float[Tensor, "n g"]:
    count = features.shape[1]
    if count <= most:
        return features.clone()
    chosen = torch.randperm(count, generator=generator_from("features", seed, name))[:most].sort().values
    return features[:, chosen.to(features.device)]
