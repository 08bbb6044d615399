"""Find the first convolution that images meet, by running the model rather than by guessing names."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from firstlight._internal.autograd.hooks import Running, running_modules
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.shapes import Images
from firstlight.maths.patches import PatchGeometry


@dataclass(frozen=True, kw_only=True)
class Convolution(Result):
    """A two-dimensional convolution as it was applied.

    Parameters
    ----------
    name : str
        Name of its weight among the model's parameters, or of the module that computes the weight.
    weight : Tensor of shape (k, c, h, w)
        Filters as they reached the convolution.
    size, stride, padding, dilation : tuple of 2 int
        The geometry.
    groups : int
        Filters of a group see only their share of the channels.
    channels : int
        Channels of the input.
    """

    name: str
    weight: Float[Tensor, "k c h w"]
    size: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]
    groups: int
    channels: int

    @property
    def geometry(self) -> PatchGeometry:
        """Which patches it sees."""
        return PatchGeometry(size=self.size, stride=self.stride, padding=self.padding, dilation=self.dilation)

    @property
    def filters(self) -> Float[Tensor, "k d"]:
        """One row per filter over the full patch; zero on channels that its group does not see."""
        return spread_groups(self.weight, self.groups)


def spread_groups(weight: Float[Tensor, "k c h w"], groups: int) -> Float[Tensor, "k d"]:
    """Filters of a grouped layer as rows over all channels.

    Examples
    --------
    >>> spread_groups(torch.ones(2, 1, 1, 1), 2)
    tensor([[1., 0.],
            [0., 1.]])
    """
    k, c, h, w = weight.shape
    full = weight.new_zeros(k, groups, c, h, w)
    group = torch.arange(k) // (k // groups)
    full[torch.arange(k), group] = weight
    return full.flatten(1)


class _Reached(Exception):
    """Ends a forward pass: what it was for is known."""


@dataclass(frozen=True)
class _Caught:
    """Arguments of a convolution, and the name of the module that was running."""

    arguments: tuple[Any, ...]
    module: str


class _Catcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Ends the forward pass at the first convolution and keeps its arguments.

    Looks below PyTorch's functions, where padding in words, transposed convolutions and all other ways
    of calling one have become the same operation.
    """

    def __init__(self, running: Running) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._running = running
        self.arguments: tuple[Any, ...] | None = None
        self.module = ""

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten.convolution.default:
            self.arguments = args
            self.module = self._running[-1][0] if self._running else ""
            raise _Reached
        return func(*args, **(kwargs or {}))


def first_convolution(model: nn.Module, images: Images) -> Convolution:
    """The first convolution met by `images`, whatever it is called and wherever it stands.

    Layers before it, such as a normalisation inside the model, are run; the rest of the model is not.
    The model is left as it was.
    """
    demand_differentiable(model)
    caught = _caught(model, images[:1])
    seen, weight, _, stride, padding, dilation, transposed, _, groups = caught.arguments
    if weight.ndim != 4 or transposed:
        kind = "a transposed convolution" if transposed else f"a {weight.ndim - 2}-dimensional convolution"
        raise InvalidInput(f"the first convolution must be two-dimensional and not transposed; got {kind}.")
    channels = weight.shape[1] * groups
    if seen.shape[1] != channels:
        raise InvalidInput(
            f"the first convolution of {type(model).__name__} takes {channels} channel{'s' * (channels > 1)}, "
            f"but these images bring {seen.shape[1]}. Choose a data set with the channels the model was made for."
        )
    address = weight.data_ptr()
    name = next((n for n, p in model.named_parameters() if p.data_ptr() == address), caught.module)
    if not weight.isfinite().all():
        raise InvalidInput(
            f"{name!r} holds NaN or infinite weights. Use weights from before the training went wrong."
        )
    return Convolution(
        name=name,
        weight=weight.detach().clone(),
        size=tuple(weight.shape[2:]),
        stride=tuple(stride),
        padding=tuple(padding),
        dilation=tuple(dilation),
        groups=groups,
        channels=channels,
    )


def inputs_of_first_convolution(model: nn.Module, images: Images, *, block: int = 256) -> Iterator[Images]:
    """What the first convolution sees, block by block: the images after all that stands before it."""
    demand_differentiable(model)
    model, _ = in_full_precision(model)
    for part in torch.split(images, block):
        yield _caught(model, part).arguments[0]


def _caught(model: nn.Module, images: Images) -> _Caught:
    parameter = next(model.parameters(), None)
    if parameter is not None:
        images = images.to(parameter.device, parameter.dtype)
    with torch.no_grad(), evaluating(model), running_modules(model) as running, _Catcher(running) as catcher:
        try:
            model(images)
        except _Reached:
            pass
        except RuntimeError as error:
            raise _unusable(model, images, error) from error
    if catcher.arguments is None:
        raise InvalidInput(
            f"the model must hold a convolution, but a forward pass of {type(model).__name__} met none. "
            "Energy profiles are defined for convolutional first layers."
        )
    return _Caught(catcher.arguments, catcher.module)


def _unusable(model: nn.Module, images: Images, error: RuntimeError) -> InvalidInput:
    c, h, w = images.shape[1:]
    reason = str(error).splitlines()[0]
    return InvalidInput(
        f"{type(model).__name__} cannot take images of shape {c}x{h}x{w}: {reason}. "
        "Choose a data set with the channels and size that the model was made for."
    )
