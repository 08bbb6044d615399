"""Layers as they were applied, their weights as filters over patches, and the choice among them."""

from collections.abc import Container, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput, unknown_name

Layer = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_WITHOUT_PATCHES = (
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.Bilinear,
    nn.RNNBase,
    nn.RNNCellBase,
)
_LOOKED_UP = (nn.Embedding, nn.EmbeddingBag)  # hold weights, but multiply no patch with them


@dataclass(frozen=True, eq=False)
class AppliedLayer:
    """A convolution or linear map as the forward pass applied it.

    Parameters
    ----------
    name : str
        Name of the module that applied it, or of its weight where no module of its own did.
    kind : str
        Class of that module, or the function that was called.
    weight : Tensor of shape (k, c, ...)
        What reached the operation: standardised, normalised or masked, if the module does that.
    groups : int
        Filters of a group see only their share of the channels.
    is_linear : bool
        Whether it is a linear map over the last axis, not a convolution.
    """

    name: str
    kind: str
    weight: Tensor
    groups: int
    is_linear: bool

    @property
    def filters(self) -> Float[Tensor, "g k d"]:
        """Weights as one row per filter, group by group, in float64 on the CPU."""
        return grouped_filters(self.weight, self.groups)

    @property
    def shape(self) -> tuple[int, ...]:
        """Of one filter."""
        return tuple(self.weight.shape[1:])


def grouped_filters(weight: Tensor, groups: int) -> Float[Tensor, "g k d"]:
    """Weights as one row per filter, group by group, in float64 on the CPU.

    A patch of a group holds the group's share of the channels, in the order (channel, row, column).

    Examples
    --------
    >>> grouped_filters(nn.Conv2d(4, 6, 3, groups=2).weight, 2).shape
    torch.Size([2, 3, 18])
    """
    # float64, for similarities of k x k matrices drift by 2e-4 in float32
    return weight.detach().cpu().double().reshape(groups, weight.shape[0] // groups, -1)


def range_basis(filters: Float[Tensor, "g k d"]) -> Float[Tensor, "g k d"] | None:
    """Orthonormal columns that span all outputs of a layer with k > d, or None if k <= d."""
    if filters.shape[1] <= filters.shape[2]:
        return None
    # outputs are W h[p], so with k > d they fill d dimensions: columns of U span them
    basis: Tensor = torch.linalg.qr(filters)[0]
    return basis


def is_selection(names: str | tuple[str, ...]) -> bool:
    """Whether `names` selects layers by kind instead of naming them."""
    return names in ("all", "convolutions")


def chosen_layers(
    model: nn.Module, applied: Mapping[str, AppliedLayer], names: str | tuple[str, ...]
) -> dict[str, AppliedLayer]:
    """Layers to measure, by name and in the order of the forward pass.

    Parameters
    ----------
    model : torch.nn.Module
        The model, for its modules' names in messages.
    applied : mapping of str to AppliedLayer
        What a forward pass applied.
    names : str or tuple of str
        "all", "convolutions", or the names of layers.
    """
    if names == "all":
        return dict(applied)
    if names == "convolutions":
        return {name: layer for name, layer in applied.items() if not layer.is_linear}
    wanted = (names,) if isinstance(names, str) else names
    for name in wanted:
        if name not in applied:
            raise _not_applied(name, dict(model.named_modules()), applied)
    return {name: layer for name, layer in applied.items() if name in wanted}


def _not_applied(
    name: str, modules: Mapping[str, nn.Module], applied: Mapping[str, AppliedLayer]
) -> InvalidInput:
    if name not in modules:
        return unknown_name("layer", name, {**modules, **applied})
    module = modules[name]
    if isinstance(module, (*CONVOLUTIONS, nn.Linear)):
        return InvalidInput(
            f"layer {name!r} cannot be measured: no convolution or linear map with its weights was applied."
        )
    return InvalidInput(
        f"layer {name!r} must be a convolution or a linear layer; it is {type(module).__name__}, for "
        "which a feature matrix is not defined here."
    )


def unmeasured_layers(
    model: nn.Module, applied: Mapping[str, AppliedLayer], called: Container[str]
) -> dict[str, str]:
    """Layers with weights that no recorded operation used, with the reason.

    Parameters
    ----------
    model : torch.nn.Module
        The model.
    applied : mapping of str to AppliedLayer
        What a forward pass applied.
    called : container of str
        Names of the modules whose forward ran.
    """
    modules = dict(model.named_modules())
    skipped: dict[str, str] = {}
    for name, module in modules.items():
        if _is_accounted_for(name, module, applied):
            continue
        if isinstance(module, _WITHOUT_PATCHES):
            skipped[name] = f"{type(module).__name__} has no patches that one matrix acts on"
        elif name not in called:
            skipped[name] = "its forward is never called; the model uses its weights directly or not at all"
        else:
            skipped[name] = f"{type(module).__name__} applies no convolution or linear map of PyTorch"
    return skipped


def _is_accounted_for(name: str, module: nn.Module, applied: Mapping[str, AppliedLayer]) -> bool:
    """Whether a module has no weights to measure, or was measured under its name or that of a weight."""
    is_layer = isinstance(module, (*CONVOLUTIONS, nn.Linear, *_WITHOUT_PATCHES))
    own = [leaf for leaf, p in module._parameters.items() if p is not None and _is_weight(leaf, p)]
    if not (is_layer or own) or isinstance(module, _LOOKED_UP):
        return True
    if type(module).__module__ == "torch.nn.utils.parametrize":  # holds the weights of another module
        return True
    return any(key == name or key.rpartition(".")[0] == name for key in applied)


def _is_weight(leaf: str, parameter: Tensor) -> bool:
    """Whether a parameter looks like filters; tokens and position codes have other names."""
    # by name: a class token has two axes as well
    return parameter.ndim >= 2 and ("weight" in leaf or "kernel" in leaf)
