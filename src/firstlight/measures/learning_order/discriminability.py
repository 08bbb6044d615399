"""How many of an example's nearest neighbours share its class."""

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from firstlight._internal.autograd.hooks import layer_inputs
from firstlight._internal.autograd.model_state import evaluating
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.shapes import Images

BLOCK_NUMBERS = 1 << 25  # distances held at a time: 128 MB of float32


def discriminability(
    inputs: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    *,
    k: int = 10,
    index: Int[Tensor, " m"] | None = None,
    block: int | None = None,
) -> Float[Tensor, " m"]:
    r"""Share of the `k` nearest neighbours, the point itself excluded, that have the point's class.

    .. math:: \mathrm{disc}(x) = \frac1k \sum_{z \in N_k(x)} 1[y(z) = y(x)]

    Euclidean distances, unchanged by shifts, rotations and a common scale. The paper gives no k; the answer
    depends on it (E-39), so try several with :func:`discriminabilities`.

    Parameters
    ----------
    inputs : Tensor of shape (n, ...)
        Images or features, one per row.
    labels : integer Tensor of shape (n,)
        Their classes.
    k : int, default 10
        Number of neighbours.
    index : integer Tensor of shape (m,), optional
        Score these examples only; neighbours are still sought among all. Default: every example.
    block : int, optional
        Rows of distances worked on at a time; by default 128 MB.

    Returns
    -------
    Tensor of shape (m,)
        In [0, 1]. Cost O(n² d) in the precision of the inputs, memory O(n d + block n). Which of several
        points at exactly the same distance counts is not defined.

    Examples
    --------
    >>> discriminability(torch.tensor([[0.0], [1.0], [1.5], [9.0]]), torch.tensor([0, 0, 1, 1]), k=1)
    tensor([1., 0., 0., 1.], dtype=torch.float64)
    """
    return discriminabilities(inputs, labels, ks=(k,), index=index, block=block)[0]


def discriminabilities(
    inputs: Float[Tensor, "n ..."],
    labels: Int[Tensor, " n"],
    *,
    ks: Sequence[int],
    index: Int[Tensor, " m"] | None = None,
    block: int | None = None,
) -> Float[Tensor, "ks m"]:
    """The same for several numbers of neighbours, at the cost of one."""
    n = len(inputs)
    if len(labels) != n:
        raise InvalidInput(f"`labels` must match `inputs`; got {len(labels)} for {n}.")
    if not ks or min(ks) < 1 or max(ks) >= n:
        raise InvalidInput(f"`k` must lie in 1 .. {n - 1}, the other examples; got {list(ks)}.")
    points = inputs.flatten(1)
    # without the common offset the squares do not drown the differences
    points = points - points.mean(0)
    squares = points.square().sum(1)
    if not squares.isfinite().all():
        raise InvalidInput("`inputs` holds NaN or infinite values. Remove or repair those examples first.")
    size = block or max(1, BLOCK_NUMBERS // n)
    rows = torch.arange(n) if index is None else index
    shares = []
    for some in torch.split(rows, size):
        # the square of the row's own point is the same for all its neighbours and left out
        distances = torch.addmm(squares, points[some], points.T, alpha=-2)
        distances[torch.arange(len(some)), some] = torch.inf
        nearest = distances.topk(max(ks), largest=False, sorted=True).indices
        same = (labels[nearest] == labels[some, None]).double()
        shares.append(torch.stack([same[:, :k].mean(1) for k in ks]))
    return torch.cat(shares, dim=1)


@follows_device
def penultimate_features(model: nn.Module, images: Images, *, batch_size: int = 500) -> Float[Tensor, "n f"]:
    """What the last linear layer of a network receives, in evaluation mode; the model is left as it was."""
    last = [m for m in model.modules() if isinstance(m, nn.Linear)]
    if not last:
        raise InvalidInput(f"the model must end in a linear layer; {type(model).__name__} has none.")
    like = last[-1].weight
    with evaluating(model):
        caught = [
            layer_inputs(model, {"last": last[-1]}, part.to(like.device, like.dtype))["last"]
            for part in torch.split(images, batch_size)
        ]
    return torch.cat(caught).cpu()
