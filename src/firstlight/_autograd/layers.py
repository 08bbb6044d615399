"""Which layers of a model can be measured, and their weights as filters over patches."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.core.errors import InvalidInput, unknown_name

Layer = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear
CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
_UNMEASURED = (
    nn.ConvTranspose1d,
    nn.ConvTranspose2d,
    nn.ConvTranspose3d,
    nn.Bilinear,
    nn.RNNBase,
    nn.MultiheadAttention,
)


def grouped_filters(layer: Layer) -> Float[Tensor, "g k d"]:
    """Weights of a layer as one row per filter, group by group, in float64 on the CPU.

    A patch of a group holds the group's share of the channels, in the order (channel, row, column).

    Examples
    --------
    >>> grouped_filters(nn.Conv2d(4, 6, 3, groups=2)).shape
    torch.Size([2, 3, 18])
    """
    weight = layer.weight
    if isinstance(weight, nn.UninitializedParameter):
        raise InvalidInput("the layer must have its weights; it is lazy. Run the model once before.")
    groups = 1 if isinstance(layer, nn.Linear) else layer.groups
    return weight.detach().double().cpu().reshape(groups, weight.shape[0] // groups, -1)


def range_basis(filters: Float[Tensor, "g k d"]) -> Float[Tensor, "g k d"] | None:
    """Orthonormal columns that span all outputs of a layer with k > d, or None if k <= d."""
    if filters.shape[1] <= filters.shape[2]:
        return None
    basis: Tensor = torch.linalg.qr(filters)[0]
    return basis


def measurable_layers(model: nn.Module, names: str | tuple[str, ...]) -> dict[str, Layer]:
    """Layers to measure, by name: "all", "convolutions", or those that are named."""
    known = dict(model.named_modules())
    if isinstance(names, str) and names not in ("all", "convolutions"):
        names = (names,)
    if isinstance(names, str):
        kinds = CONVOLUTIONS if names == "convolutions" else (*CONVOLUTIONS, nn.Linear)
        found = {name: module for name, module in known.items() if isinstance(module, kinds)}
        if not found:
            raise InvalidInput(
                f"the model must hold a convolution or a linear layer; {type(model).__name__} has none that "
                "PyTorch's own classes describe."
            )
        return {name: layer for name, layer in found.items() if isinstance(layer, (*CONVOLUTIONS, nn.Linear))}
    chosen: dict[str, Layer] = {}
    for name in names:
        if name not in known:
            raise unknown_name("layer", name, known)
        module = known[name]
        if not isinstance(module, (*CONVOLUTIONS, nn.Linear)):
            raise InvalidInput(
                f"layer {name!r} must be a convolution or a linear layer; it is {type(module).__name__}, for "
                "which a feature matrix is not defined here."
            )
        chosen[name] = module
    return chosen


def unmeasured_layers(model: nn.Module) -> dict[str, str]:
    """Layers with weights that feature matrices are not defined for, with the reason."""
    return {
        name: f"{type(module).__name__} has no patches that one matrix acts on"
        for name, module in model.named_modules()
        if isinstance(module, _UNMEASURED)
    }
