"""The one matrix that a linear network is, and how it converges along each principal component."""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.overrides import TorchFunctionMode

from firstlight._internal.devices import follows_device, in_double
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from

BLOCK = 256  # basis vectors pushed through at a time

_NAMES = (
    "relu relu_ relu6 leaky_relu elu selu celu gelu silu mish softplus tanh tanh_ sigmoid sigmoid_ hardtanh hardswish "
    "hardsigmoid prelu softsign"
)
_ACTIVATIONS = frozenset(
    getattr(place, name) for place in (F, torch, Tensor) for name in _NAMES.split() if hasattr(place, name)
)


@follows_device
def compact_representation(model: nn.Module, shape: Sequence[int]) -> Float[Tensor, "k q"]:
    r"""The matrix of a linear network of any structure: fully connected, convolutional, average pooling.

    .. math:: \mathbf{W} = [f(e_1) - f(0), \ldots, f(e_q) - f(0)]

    Exact; row r is the separator of class r. Networks that are not linear are refused: see
    :func:`activation_free_representation`.

    Parameters
    ----------
    model : torch.nn.Module
        Left as it was; dropout is off.
    shape : sequence of int
        Shape of one input, such as (3, 32, 32).

    Returns
    -------
    Tensor of shape (k, q)
        In float64, computed on a copy in double precision. Cost of `q` images through the network.
    """
    weights, is_linear = _pushed(model, shape)
    if not is_linear:
        raise InvalidInput(
            f"the model must be linear, and {type(model).__name__} is not: f(x) - f(0) differs from Wx. "
            "Use `activation_free_representation` to leave its activations out."
        )
    return weights


@follows_device
def activation_free_representation(model: nn.Module, shape: Sequence[int]) -> Float[Tensor, "k q"]:
    """The same for a network with its activations left out, as the paper treats non-linear networks.

    Activations become the identity and maxima over windows become means (E-43), in layers and in function
    calls alike; batch norm, in evaluation mode, is linear already. A network that is still not linear is
    refused. Arguments as for :func:`compact_representation`.
    """
    with _NoActivations():
        weights, is_linear = _pushed(model, shape)
    if not is_linear:
        raise InvalidInput(
            f"{type(model).__name__} is not linear even without its activations; it has no such matrix."
        )
    return weights


class CompactRecorder:
    """Observer that keeps the compact representation at chosen steps.

    Parameters
    ----------
    shape : sequence of int
        Shape of one input.
    steps : sequence of int
        When to look.
    of : callable, default compact_representation
        :func:`compact_representation` or :func:`activation_free_representation`.
    """

    def __init__(
        self,
        shape: Sequence[int],
        steps: Sequence[int],
        of: Callable[..., Tensor] = compact_representation,
    ) -> None:
        self.shape, self.of = tuple(shape), of
        self.wanted = frozenset(steps)
        self._steps: list[int] = []
        self._weights: list[Tensor] = []

    def __call__(self, step: int, model: nn.Module) -> None:
        """Keep the matrix if this step is wanted."""
        if step in self.wanted:
            self._steps.append(step)
            # stored in float32: half the file, and far below the spread between networks
            self._weights.append(self.of(model, self.shape).float())

    def state_dict(self) -> dict[str, Tensor]:
        """Return `steps` and `weights`, stacked."""
        stacked = torch.stack(self._weights) if self._weights else torch.zeros(0)
        return {"steps": torch.tensor(self._steps, dtype=torch.int64), "weights": stacked}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        """Continue from a record."""
        self._steps = [int(s) for s in state["steps"]]
        self._weights = list(state["weights"]) if self._steps else []


@dataclass(frozen=True, kw_only=True)
class ComponentConvergence(Result):
    """How an ensemble of linear maps converges along each principal component.

    Parameters
    ----------
    spread : Tensor of shape (t, m)
        Standard deviation over networks, averaged over outputs.
    distance : Tensor of shape (t, m) or None
        Mean absolute distance to the optimum over networks and outputs; None without one.
    """

    spread: Float[Tensor, "t m"]
    distance: Float[Tensor, "t m"] | None

    def share_left(self) -> Float[Tensor, "t m"]:
        """Spread relative to that at the first time."""
        return self.spread / self.spread[0].clamp(min=torch.finfo(self.spread.dtype).tiny)


def component_convergence(
    weights: Float[Tensor, "nets t k q"],
    basis: Float[Tensor, "q m"],
    *,
    optimum: Float[Tensor, "k q"] | None = None,
    class_mean_removed: bool,
) -> ComponentConvergence:
    """Spread over networks and distance to the optimum, by component and time.

    Parameters
    ----------
    weights : Tensor of shape (nets, t, k, q)
        Compact representations of every network at every time, in pixel coordinates.
    basis : Tensor of shape (q, m)
        Principal directions of the inputs, one per column.
    optimum : Tensor of shape (k, q), optional
        Where all networks go, in pixel coordinates.
    class_mean_removed : bool
        True for cross-entropy: the softmax never trains the mean over classes, whose spread then hides
        the effect. False for squared losses.
    """
    # 𝐖 → 𝐖 U, its principal columns, which converge each at its own rate (1 - μ L d_j)
    columns = _columns(weights, basis, class_mean_removed)
    distance = None
    if optimum is not None:
        goal = _columns(optimum, basis, class_mean_removed)
        # absolute, not squared: the closed form is geometric in the entries themselves
        distance = (columns - goal).abs().mean((0, 2))
    return ComponentConvergence(
        spread=columns.std(0).mean(1),
        distance=distance,
    )


def _columns(weights: Tensor, basis: Tensor, class_mean_removed: bool) -> Tensor:
    # softmax does not see what all rows have in common, so training never fixes it
    columns = weights.double() @ basis.double()
    return columns - columns.mean(-2, keepdim=True) if class_mean_removed else columns


def _pushed(model: nn.Module, shape: Sequence[int]) -> tuple[Tensor, bool]:
    """The matrix, and whether it reproduces the network at random inputs of several sizes."""
    q = math.prod(shape)
    # a copy in double precision: in a deep network f(e) - f(0) is far smaller than f(0), and float32 loses it
    exact = in_double(model).eval()
    like = next(exact.parameters(), torch.zeros((), dtype=torch.float64))

    def outputs(vectors: Tensor) -> Tensor:
        outputs: Tensor = exact(vectors.to(like).reshape(len(vectors), *shape))
        return outputs.flatten(1).cpu()

    with torch.no_grad():
        # f(0), the biases pushed through: 𝐖 e_j = f(e_j) - f(0)
        offset = outputs(torch.zeros(1, q))
        rows = []
        for start in range(0, q, BLOCK):
            basis = torch.zeros(min(BLOCK, q - start), q)
            basis[torch.arange(len(basis)), torch.arange(start, start + len(basis))] = 1
            rows.append(outputs(basis) - offset)
        weights = torch.cat(rows).T.contiguous()
        # of either sign and several sizes: a network that is piecewise linear can be linear near 0
        sizes = torch.tensor([[0.1], [1.0], [-3.0], [30.0]], dtype=torch.float64)
        probes = sizes * torch.randn(4, q, generator=generator_from("probe"), dtype=torch.float64)
        error = (outputs(probes) - offset - probes @ weights.T).abs()
    # rounding is in proportion to |x||𝐖_r| and |f(0)|; float64 leaves seven digits below 1e-9 for depth
    scale = probes.norm(dim=1, keepdim=True) * weights.norm(dim=1) + offset.abs()
    return weights, bool((error <= 1e-9 * scale + 1e-300).all())


class _NoActivations(TorchFunctionMode):
    """Replaces activations by the identity and maximum pooling by average pooling while it is active."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        named = kwargs or {}
        if func in _ACTIVATIONS:
            return args[0] if args else named["input"]
        if func in (torch.max_pool2d, F.max_pool2d):
            return _averaged(*args, **named)
        if func is F.adaptive_max_pool2d:
            return F.adaptive_avg_pool2d(args[0], args[1] if len(args) > 1 else named["output_size"])
        # global maximum pooling, as models write it by hand
        if func in (torch.amax, Tensor.amax):
            return torch.mean(*args, **named)
        return func(*args, **named)


def _averaged(
    x: Tensor,
    kernel_size: Any,
    stride: Any = None,
    padding: Any = 0,
    dilation: Any = 1,
    ceil_mode: bool = False,
    return_indices: bool = False,
) -> Tensor:
    if dilation not in (1, (1, 1), [1, 1]) or return_indices:
        raise InvalidInput(f"pooling with dilation={dilation} or indices has no average counterpart.")
    return F.avg_pool2d(x, kernel_size, stride or kernel_size, padding, ceil_mode)
