"""The feature matrix of a layer: which directions of a patch its filters respond to."""

from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.autograd.layers import CONVOLUTIONS, Layer, grouped_filters
from firstlight._internal.errors import InvalidInput


def feature_matrix(layer: Layer) -> Float[Tensor, "d d"] | Float[Tensor, "g d d"]:
    r"""The feature matrix :math:`W^\top W` of a convolution or linear layer.

    Its square root measures a patch as the layer does: :math:`\|M^{1/2} x[p]\|` is the norm of the
    layer's outputs at that position, biases apart. Unchanged when an orthogonal matrix mixes the
    filters.

    Returns
    -------
    Tensor of shape (d, d) or Tensor of shape (g, d, d)
        In float64; with groups one matrix each, over the group's share of the channels. Cost O(k d²).

    References
    ----------
    .. [1] CNFA, section 2. We do not divide by the number of filters.

    Examples
    --------
    >>> import torch
    >>> layer = nn.Conv2d(1, 2, 1, bias=False)
    >>> layer.weight.data = torch.tensor([3.0, 4.0]).reshape(2, 1, 1, 1)
    >>> feature_matrix(layer)
    tensor([[25.]], dtype=torch.float64)
    """
    if not isinstance(layer, (*CONVOLUTIONS, nn.Linear)):
        raise InvalidInput(
            f"`layer` must be a convolution or a linear layer; got {type(layer).__name__}. "
            "For a whole model use patch_gradients or ansatz, which find the layers."
        )
    if isinstance(layer.weight, nn.UninitializedParameter):
        raise InvalidInput("`layer` must have its weights; it is lazy. Run the model once before.")
    filters = grouped_filters(layer.weight, 1 if isinstance(layer, nn.Linear) else layer.groups)
    matrices = filters.mT @ filters
    return matrices[0] if len(matrices) == 1 else matrices
