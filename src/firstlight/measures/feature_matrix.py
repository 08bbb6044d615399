"""The feature matrix of a layer: which directions of a patch its filters respond to."""

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.core.errors import InvalidInput, unknown_name

Layer = nn.Conv1d | nn.Conv2d | nn.Conv3d | nn.Linear
_CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
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


def feature_matrix(layer: Layer) -> Float[Tensor, "d d"] | Float[Tensor, "g d d"]:
    r"""The feature matrix :math:`W^\top W` of a convolution or linear layer.

    Its square root measures a patch as the layer does: :math:`\|M^{1/2} x[p]\|` is the norm of the
    layer's outputs at that position, biases apart. Unchanged when an orthogonal matrix mixes the
    filters.

    Returns
    -------
    In float64; with groups one matrix each, over the group's share of the channels. Cost O(k d²).

    References
    ----------
    .. [1] CNFA, section 2. We do not divide by the number of filters.

    Examples
    --------
    >>> layer = nn.Conv2d(1, 2, 1, bias=False)
    >>> layer.weight.data = torch.tensor([3.0, 4.0]).reshape(2, 1, 1, 1)
    >>> feature_matrix(layer)
    tensor([[25.]], dtype=torch.float64)
    """
    if not isinstance(layer, (*_CONVOLUTIONS, nn.Linear)):
        raise InvalidInput(
            f"`layer` must be a convolution or a linear layer; got {type(layer).__name__}. "
            "For a whole model use patch_agop or ansatz, which find the layers."
        )
    filters = grouped_filters(layer)
    matrices = filters.mT @ filters
    return matrices[0] if len(matrices) == 1 else matrices


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
        kinds = _CONVOLUTIONS if names == "convolutions" else (*_CONVOLUTIONS, nn.Linear)
        found = {name: module for name, module in known.items() if isinstance(module, kinds)}
        if not found:
            raise InvalidInput(
                f"the model must hold a convolution or a linear layer; {type(model).__name__} has none that "
                "PyTorch's own classes describe."
            )
        return {
            name: layer for name, layer in found.items() if isinstance(layer, (*_CONVOLUTIONS, nn.Linear))
        }
    chosen: dict[str, Layer] = {}
    for name in names:
        if name not in known:
            raise unknown_name("layer", name, known)
        module = known[name]
        if not isinstance(module, (*_CONVOLUTIONS, nn.Linear)):
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
