"""Find the first layer that inputs meet, by running the model rather than by guessing names.

A one-dimensional convolution is a two-dimensional one over images of one row. In three dimensions, the slices below a
filter become channels. A linear layer that embeds patches is a convolution of one pixel over its tokens. All three are
exact, so that everything else is shared.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
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


@dataclass(frozen=True)
class FirstLayer:
    """A layer as it was applied: its input, weight and geometry."""

    name: str
    seen: Tensor
    weight: Tensor
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    def convolution(self) -> Convolution:
        """The same layer in two dimensions."""
        weight = two_dimensional(self.weight.detach().clone())
        if not weight.isfinite().all():
            raise InvalidInput(
                f"{self.name!r} holds NaN or infinite weights. Use weights from before the training went wrong."
            )
        return Convolution(
            name=self.name,
            weight=weight,
            size=(weight.shape[2], weight.shape[3]),
            stride=_pair(self.stride, 1),
            padding=_pair(self.padding, 0),
            dilation=_pair(self.dilation, 1),
            groups=self.groups,
            channels=weight.shape[1] * self.groups,
        )

    def as_images(self) -> Float[Tensor, "n c h w"]:
        """What the layer saw, as images for :meth:`convolution`."""
        if self.weight.ndim == 4:
            return self.seen
        if self.weight.ndim == 2:  # tokens, one pixel each
            return self.seen.mT[..., None]
        if self.weight.ndim == 3:
            return self.seen[:, :, None]
        depth, step, spread = self.weight.shape[2], self.stride[0], self.dilation[0]
        padded = functional.pad(self.seen, (0, 0, 0, 0, self.padding[0], self.padding[0]))
        windows = padded.unfold(2, spread * (depth - 1) + 1, step)[..., ::spread]  # n c out h w depth
        return windows.permute(0, 2, 1, 5, 3, 4).flatten(2, 3).flatten(0, 1)


def two_dimensional(weight: Tensor) -> Float[Tensor, "k c h w"]:
    """Filters over tokens, signals or volumes as filters over the images of :meth:`FirstLayer.as_images`."""
    if weight.ndim == 2:
        return weight[:, :, None, None]
    if weight.ndim == 4:
        return weight
    return weight[:, :, None] if weight.ndim == 3 else weight.flatten(1, 2)


def _pair(numbers: tuple[int, ...], missing: int) -> tuple[int, int]:
    """The last two of a geometry; a single number belongs to the columns."""
    first, last = (missing, missing, *numbers)[-2:]
    return first, last


class _Reached(Exception):
    """Ends a forward pass: what it was for is known."""


class _Catcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the first convolution, which ends the pass, and the first linear layer over tokens before it.

    Looks below PyTorch's functions, where padding in words, transposed convolutions and all other ways
    of calling one have become the same operation.
    """

    def __init__(self, model: nn.Module, n_inputs: int, running: Running) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._weights = {p.data_ptr(): (name, p.shape) for name, p in model.named_parameters()}
        self._n_inputs, self._running = n_inputs, running
        self.convolution: tuple[Any, ...] | None = None
        self.name = ""
        self.tokens: FirstLayer | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten.convolution.default:
            self.convolution = args
            module = self._running[-1][0] if self._running else ""  # for weights that are computed
            self.name = self._weights.get(args[1].data_ptr(), (module, None))[0]
            raise _Reached
        if self.tokens is None and func in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default):
            self._keep_tokens(*args[-2:])
        return func(*args, **(kwargs or {}))

    def _keep_tokens(self, rows: Tensor, transposed: Tensor) -> None:
        """Keep a product of rows with a weight of the model, if there are several rows for every input."""
        name, shape = self._weights.get(transposed.data_ptr(), ("", None))
        tokens, rest = divmod(len(rows), self._n_inputs)
        if shape == transposed.mT.shape and rest == 0 and tokens > 1:
            seen = rows.reshape(self._n_inputs, tokens, -1)
            self.tokens = FirstLayer(name, seen, transposed.mT, (), (), (), 1)


def first_layer(model: nn.Module, inputs: Tensor) -> FirstLayer:
    """The first convolution met by `inputs`, else the first linear layer over tokens, whatever it is called.

    Layers before it, such as a normalisation inside the model, are run; what follows a convolution is not.
    The model is left as it was.
    """
    demand_differentiable(model)
    parameter = next(model.parameters(), None)
    if parameter is not None:
        inputs = inputs.to(parameter.device, parameter.dtype)
    with (
        torch.no_grad(),
        evaluating(model),
        running_modules(model) as running,
        _Catcher(model, len(inputs), running) as catcher,
    ):
        try:
            model(inputs)
        except _Reached:
            pass
        except (RuntimeError, ValueError) as error:
            raise InvalidInput(
                f"{type(model).__name__} cannot take inputs of shape {'x'.join(map(str, inputs.shape[1:]))}: "
                f"{str(error).splitlines()[0]}. Choose data with the channels and size that the model was made for."
            ) from error
    if catcher.convolution is not None:
        seen, weight, _, stride, padding, dilation, transposed, _, groups = catcher.convolution
        if transposed:
            raise InvalidInput("the first convolution must not be transposed; it is.")
        channels = weight.shape[1] * groups
        if seen.shape[1] != channels:
            raise InvalidInput(
                f"the first convolution of {type(model).__name__} takes {channels} channel{'s' * (channels > 1)}; "
                f"these inputs bring {seen.shape[1]}. Choose data with the channels that the model was made for."
            )
        return FirstLayer(catcher.name, seen, weight, tuple(stride), tuple(padding), tuple(dilation), groups)
    tokens: FirstLayer | None = catcher.tokens
    if tokens is not None:
        return tokens
    raise InvalidInput(
        f"the model must hold a convolution or a linear layer over patches, but a forward pass of "
        f"{type(model).__name__} met neither. Energy profiles are defined for layers over patches."
    )


def first_convolution(model: nn.Module, images: Images) -> Convolution:
    """The first convolution met by `images`, whatever it is called and wherever it stands."""
    layer = first_layer(model, images[:1])
    if layer.weight.ndim != 4:
        raise InvalidInput(f"the first layer must be a two-dimensional convolution; {layer.name!r} is none.")
    return layer.convolution()


def inputs_of_first_layer(model: nn.Module, inputs: Tensor) -> Iterator[Images]:
    """What the first layer sees, as images, block by block: the inputs after all that stands before it."""
    model, _ = in_full_precision(model)
    for block in torch.split(inputs, 256):
        yield first_layer(model, block).as_images().detach().cpu()
