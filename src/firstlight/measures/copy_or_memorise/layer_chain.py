"""A chain of layers, cut where one layer hands over to the next."""

import copy
from collections.abc import Sequence

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.model_state import evaluating
from firstlight._internal.devices import device_of, follows_device
from firstlight._internal.errors import InvalidInput


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
    top = nn.Sequential(*chain[-layers:])
    first = next((m for m in top.modules() if isinstance(m, nn.Conv2d | nn.Linear)), None)
    if not isinstance(first, nn.Conv2d):
        raise InvalidInput(
            "upper sub-networks are probed in convolutional networks; this one has none on top."
        )
    channel = torch.arange(first.in_channels) % images.shape[1]
    with evaluating(model):
        output: Tensor = top(images[:, channel.to(images.device)].to(device_of(model)))
    return output


def with_circular_padding(model: nn.Module) -> nn.Module:
    """Copy of a convolutional network that sees no border: the image continues on its other side."""
    circular = copy.deepcopy(model)
    for module in circular.modules():
        if isinstance(module, nn.Conv2d):
            module.padding_mode = "circular"
            sides = [p for p in module.padding[::-1] if isinstance(p, int)]
            module._reversed_padding_repeated_twice = [p for p in sides for _ in range(2)]
    return circular


def weight_changes(
    initial: dict[str, Tensor], trained: dict[str, Tensor], *, names: Sequence[str] | None = None
) -> dict[str, float]:
    r"""Relative distance :math:`\|W^0 - W^*\| / \|W^0\|` of every weight matrix or kernel, by name.

    Parameters
    ----------
    initial, trained : dict of str to Tensor
        State dictionaries of one network before and after training.
    names : sequence of str, optional
        Which tensors; by default all with at least two axes, which leaves out biases.
    """
    chosen = [name for name, w in initial.items() if w.ndim > 1] if names is None else names
    changes = {}
    for name in chosen:
        before, after = initial[name].double(), trained[name].double()
        if not before.any():
            raise InvalidInput(f"`initial` weights {name!r} are all zero: no change is relative to that.")
        changes[name] = float((after - before).norm() / before.norm())
    return changes
