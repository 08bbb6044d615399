"""A chain of layers cut into stages, and what passes through each as one picture."""

import copy
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_state import evaluating
from firstlight._internal.devices import device_of, follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight.measures.copy_or_memorise.identity_score import image_outputs, similarities
from firstlight.questions.copy_or_memorise.images import resized


def top_singular_image(activation: Float[Tensor, "c h w"]) -> Float[Tensor, "h w"]:
    """The image that all channels have most in common: the top right singular vector of (c, h w).

    Of unit length; its sign is that of the sum of its weights over the channels, which makes it
    resemble the mean channel. A zero activation gives a zero image.
    """
    # (c, hw) = L S R: the first row of R is the image that explains most of all channels at once
    matrix = activation.double().flatten(1)
    left, singular, right = torch.linalg.svd(matrix, full_matrices=False)
    if singular[0] == 0:
        return matrix.new_zeros(activation.shape[1:])
    sign = -1.0 if left[:, 0].sum() < 0 else 1.0
    image: Tensor = sign * right[0]
    return image.reshape(activation.shape[1:])


@dataclass(frozen=True, kw_only=True)
class LayerImages(Result):
    """Three pictures per layer, and how much they resemble the input.

    Parameters
    ----------
    singular : Tensor of shape (layers, h, w)
        Top singular image.
    best : Tensor of shape (layers, h, w)
        The channel best correlated with the input (by size).
    first : Tensor of shape (layers, h, w)
        Channel 0.
    singular_similarity : Tensor of shape (layers,)
        Absolute Pearson correlation with the input.
    """

    singular: Float[Tensor, "layers h w"]
    best: Float[Tensor, "layers h w"]
    first: Float[Tensor, "layers h w"]
    singular_similarity: Float[Tensor, " layers"]


@follows_device
def layer_images(model: nn.Module, image: Float[Tensor, "c h w"]) -> LayerImages:
    """Look behind every layer of a fully convolutional chain on one image.

    The input is compared as the mean of its channels.

    Parameters
    ----------
    model : torch.nn.Module
        A chain whose layers keep the image size, see
        :func:`weight_layers`.
    image : Tensor of shape (c, h, w)
        As the network sees it.
    """
    grey = image.double().mean(0)
    rows: dict[str, list[Tensor]] = {"singular": [], "best": [], "first": []}
    for output in stage_outputs(model, image[None]):
        if output.ndim != 4 or output.shape[2:] != image.shape[1:]:
            raise InvalidInput(
                f"every layer must keep the image size {tuple(image.shape[1:])}; one returns "
                f"{tuple(output.shape[1:])}."
            )
        channels = output[0].double()
        # absolute: a channel that shows the negative carries the image just as well
        likeness = similarities(channels[:, None], grey.expand(len(channels), 1, *grey.shape)).abs()
        rows["singular"].append(top_singular_image(channels))
        rows["best"].append(channels[int(likeness.argmax())])
        rows["first"].append(channels[0])
    pictures = {name: torch.stack(values) for name, values in rows.items()}
    return LayerImages(
        **pictures,
        singular_similarity=_likeness(pictures["singular"], grey),
    )


def _likeness(pictures: Tensor, grey: Tensor) -> Tensor:
    return similarities(pictures[:, None], grey.expand_as(pictures)[:, None]).abs()


def output_variation(outputs: Float[Tensor, "n c h w"]) -> float:
    r"""How much the outputs differ among each other: 0 for a constant map.

    .. math:: \sqrt{\tfrac1n\sum_i\|f_i - \bar f\|^2} \Big/ \tfrac1n\sum_i\|f_i\|
    """
    rows = outputs.double().flatten(1)
    size = float(rows.norm(dim=1).mean())
    if size == 0:
        return 0.0
    return float((rows - rows.mean(0)).square().sum(1).mean().sqrt()) / size


@dataclass(frozen=True, kw_only=True)
class SizeResponse(Result):
    """Behaviour at input sizes other than the trained one."""

    sides: tuple[int, ...]
    identity: Float[Tensor, " sizes"]
    variation: Float[Tensor, " sizes"]


@follows_device
def size_response(model: nn.Module, images: Float[Tensor, "n c h w"], sides: tuple[int, ...]) -> SizeResponse:
    """Pearson to the identity and variation over inputs, of a fully convolutional network at each size."""
    identity, variation = [], []
    for side in sides:
        inputs = resized(images, side)
        outputs = image_outputs(model, inputs)
        identity.append(similarities(outputs, inputs).mean())
        variation.append(output_variation(outputs))
    return SizeResponse(
        sides=tuple(sides),
        identity=torch.stack(identity),
        variation=torch.tensor(variation, dtype=torch.float64),
    )


def weight_layers(model: nn.Module) -> list[nn.Sequential]:
    """Cut a chain into its weight layers, each with the activation that follows it.

    Modules without weights before the first weight layer (a flattening) belong to the first stage. A
    residual block is one stage.

    Parameters
    ----------
    model : torch.nn.Module
        An `nn.Sequential`; wrap your own network as one whose entries follow each other.
    """
    if not isinstance(model, nn.Sequential):
        raise InvalidInput(
            f"`model` must be an nn.Sequential, so that it can be cut between layers; got "
            f"{type(model).__name__}. Wrap its parts as nn.Sequential(part1, part2, ...)."
        )
    cut: list[list[nn.Module]] = [[]]
    for module in model:
        weighted = any(True for _ in module.parameters())
        if weighted and any(any(True for _ in m.parameters()) for m in cut[-1]):
            cut.append([])
        cut[-1].append(module)
    return [nn.Sequential(*modules) for modules in cut]


@follows_device
@torch.no_grad()
def stage_outputs(model: nn.Module, images: Float[Tensor, "n c h w"]) -> list[Tensor]:
    """What every stage hands over, first to last, in evaluation mode; on the CPU."""
    outputs, x = [], images.to(device_of(model))
    with evaluating(model):
        for stage in weight_layers(model):
            x = stage(x)
            outputs.append(x)
    return outputs


@follows_device
@torch.no_grad()
def upper_outputs(
    model: nn.Module, images: Float[Tensor, "n c h w"], *, layers: int
) -> Float[Tensor, "n c h w"]:
    """Feed images to the top `layers` stages alone, repeated over the channels those expect.

    Parameters
    ----------
    model : torch.nn.Module
        A chain of convolutions, see :func:`weight_layers`.
    images : Tensor of shape (n, c, h, w)
        The channels are repeated in turn until there are enough.
    layers : int
        How many of the last stages to keep.
    """
    chain = weight_layers(model)
    if not 1 <= layers <= len(chain):
        raise InvalidInput(f"`layers` must lie in 1 .. {len(chain)}; got layers={layers}.")
    last_layers = nn.Sequential(*chain[-layers:])
    first = next((m for m in last_layers.modules() if isinstance(m, nn.Conv2d | nn.Linear)), None)
    if not isinstance(first, nn.Conv2d):
        raise InvalidInput(
            "upper sub-networks are probed in convolutional networks; this one has none on top."
        )
    # the upper layers expect many channels: each gets the image, as the paper feeds it
    channel = torch.arange(first.in_channels) % images.shape[1]
    with evaluating(model):
        output: Tensor = last_layers(images[:, channel.to(images.device)].to(device_of(model)))
    return output


def with_circular_padding(model: nn.Module) -> nn.Module:
    """Copy of a convolutional network that sees no border: the image continues on its other side."""
    circular = copy.deepcopy(model)
    for module in circular.modules():
        if isinstance(module, nn.Conv2d):
            module.padding_mode = "circular"
            # torch keeps the padding of the circular mode apart, made when the layer was
            sides = [p for p in module.padding[::-1] if isinstance(p, int)]
            module._reversed_padding_repeated_twice = [p for p in sides for _ in range(2)]
    return circular


def weight_changes(initial: dict[str, Tensor], trained: dict[str, Tensor]) -> dict[str, float]:
    r"""Relative distance :math:`\|W^0 - W^*\| / \|W^0\|` of every weight matrix or kernel, by name.

    Parameters
    ----------
    initial, trained : dict of str to Tensor
        State dictionaries of one network before and after training.
    """
    changes = {}
    for name in (name for name, w in initial.items() if w.ndim > 1):  # no biases
        before, after = initial[name].double(), trained[name].double()
        if not before.any():
            raise InvalidInput(f"`initial` weights {name!r} are all zero: no change is relative to that.")
        changes[name] = float((after - before).norm() / before.norm())
    return changes
