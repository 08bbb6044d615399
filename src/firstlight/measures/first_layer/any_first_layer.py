"""The energy profile of any first layer: over images, signals, volumes or tokens.

A one-dimensional convolution is a two-dimensional one over images of one row. In three dimensions, the slices below a
filter become channels. A linear layer that embeds patches is a convolution of one pixel over its tokens. All three are
exact, so that everything else is shared.
"""

from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn
from torch.nn import functional
from torch.utils._python_dispatch import TorchDispatchMode

from firstlight._internal.autograd.autocast import without_autocast
from firstlight._internal.autograd.model_state import demand_differentiable, evaluating, in_full_precision
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight.data.conversion import ImagesLike, tensor_or_images
from firstlight.data.images import ImageData
from firstlight.maths.pca import patch_pca
from firstlight.measures.first_layer.energy_profile import N_IMAGES, Profile, profile_from
from firstlight.measures.first_layer.energy_profile import profile as profile_of_images
from firstlight.measures.first_layer.first_convolution import Convolution
from firstlight.models.kinds import as_network


@follows_device
def profile(
    model: nn.Module | Tensor,
    data: ImagesLike,
    *,
    subtract: nn.Module | Tensor | None = None,
    center: bool = True,
    n_images: int = N_IMAGES,
    seed: int = 0,
) -> Profile:
    """Energy profile of the first layer of any model.

    Parameters
    ----------
    model : torch.nn.Module or Tensor
        Any module whose forward pass meets a convolution in one, two or three dimensions, or, if it meets
        none, a linear layer over tokens, as transformers have that cut images into patches. Or the filters alone,
        as PyTorch shapes the weight of a convolution; they are applied without stride and padding.
    data : Tensor, ImageData, Dataset, DataLoader, folder and others
        What the model is for, scaled as it expects it: images in any form that
        :func:`firstlight.data.as_images` takes, signals as a tensor ``n c l``, volumes as ``n c d h w``.
    subtract : torch.nn.Module or Tensor, optional
        The initial model, or the initial weight of that layer; the profile is then that of the
        accumulated update. After one step this is the root of the patch variances whatever was learned:
        compare with :meth:`Profile.controls`.
    center : bool, default True
        Remove the mean patch from the basis.
    n_images : int, default N_IMAGES
        Maximum number of images for the basis.
    seed : int, default 0
        Seed for the random filters that serve as null.

    Examples
    --------
    >>> signals = torch.randn(20, 2, 30, generator=torch.Generator().manual_seed(0))
    >>> profile(nn.Sequential(nn.Conv1d(2, 4, 5), nn.ReLU()), signals).amplitude.shape
    torch.Size([10])
    """
    data = tensor_or_images(data)
    inputs = data.x if isinstance(data, ImageData) else data
    model = _layer_of(model, inputs) if isinstance(model, Tensor) else as_network(model)
    if inputs.ndim < 3 or len(inputs) == 0:
        raise InvalidInput(
            f"`data` must hold images, signals or volumes, at least one; got a shape of {tuple(inputs.shape)}."
        )
    if subtract is not None and not isinstance(subtract, Tensor):
        subtract = as_network(subtract)
    with without_autocast(*(network for network in (model, subtract) if isinstance(network, nn.Module))):
        first = _first_layer(model, inputs[:1])
        if first.is_over_images:
            return profile_of_images(
                model, data, subtract=subtract, center=center, n_images=n_images, seed=seed
            )
        return _profile_in_two_dimensions(
            model, first.convolution(), inputs[:n_images], subtract=subtract, center=center, seed=seed
        )


def _layer_of(weight: Tensor, inputs: Tensor) -> nn.Module:
    """A convolution with these filters over these inputs."""
    kinds: dict[int, Any] = {3: nn.Conv1d, 4: nn.Conv2d, 5: nn.Conv3d}
    groups, rest = divmod(inputs.shape[1], weight.shape[1]) if weight.ndim == inputs.ndim else (0, 1)
    if (
        weight.ndim not in kinds
        or rest
        or not groups
        or len(weight) % groups
        or not weight.is_floating_point()
    ):
        raise InvalidInput(
            "the filters must be shaped as the weight of a convolution over the data (filters, channels, then sides) "
            f"and hold floating-point numbers; got {tuple(weight.shape)} in {weight.dtype} for data of "
            f"{tuple(inputs.shape)}."
        )
    layer: nn.Module = kinds[weight.ndim](
        inputs.shape[1], len(weight), tuple(weight.shape[2:]), groups=groups, bias=False
    )
    layer.weight = nn.Parameter(weight.detach().clone())
    return layer


def _profile_in_two_dimensions(
    model: nn.Module,
    layer: Convolution,
    inputs: Tensor,
    *,
    subtract: nn.Module | Tensor | None,
    center: bool,
    seed: int,
) -> Profile:
    """Profile of a layer over signals, volumes or tokens, from the images that stand for what it sees."""
    full, _ = in_full_precision(model)
    seen = (_first_layer(full, block).as_images().detach().cpu() for block in torch.split(inputs, 256))
    pca = patch_pca(seen, layer.geometry, center=center)
    if isinstance(subtract, nn.Module):
        subtract = _first_layer(subtract, inputs[:1]).convolution().weight
    elif subtract is not None:
        subtract = _two_dimensional(subtract)
    return profile_from(layer, pca, subtract=subtract, seed=seed)


@dataclass(frozen=True)
class _FirstLayer:
    """A layer as it was applied: its input, weight and geometry."""

    name: str
    seen: Tensor
    weight: Tensor
    stride: tuple[int, ...]
    padding: tuple[int, ...]
    dilation: tuple[int, ...]
    groups: int

    @property
    def is_over_images(self) -> bool:
        return self.weight.ndim == 4

    def convolution(self) -> Convolution:
        """The same layer in two dimensions."""
        weight = _two_dimensional(self.weight.detach().clone())
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
        if self.weight.ndim == 2:  # tokens, one pixel each
            return self.seen.mT[..., None]
        if self.weight.ndim == 3:
            return self.seen[:, :, None]
        depth, step, spread = self.weight.shape[2], self.stride[0], self.dilation[0]
        padded = functional.pad(self.seen, (0, 0, 0, 0, self.padding[0], self.padding[0]))
        windows = padded.unfold(2, spread * (depth - 1) + 1, step)[..., ::spread]  # n c out h w depth
        return windows.permute(0, 2, 1, 5, 3, 4).flatten(2, 3).flatten(0, 1)


def _two_dimensional(weight: Tensor) -> Float[Tensor, "k c h w"]:
    """Filters over tokens, signals or volumes as filters over the images of :meth:`_FirstLayer.as_images`."""
    if weight.ndim == 2:
        return weight[:, :, None, None]
    return weight[:, :, None] if weight.ndim == 3 else weight.flatten(1, 2)


def _pair(numbers: tuple[int, ...], missing: int) -> tuple[int, int]:
    """The last two of a geometry; a single number belongs to the columns."""
    first, last = (missing, missing, *numbers)[-2:]
    return first, last


class _Reached(Exception):
    """Ends a forward pass: what it was for is known."""


class _Catcher(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Keeps the first convolution, which ends the pass, and the first linear layer over tokens before it."""

    def __init__(self, model: nn.Module, n_inputs: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._names = {p.data_ptr(): (name, p.shape) for name, p in model.named_parameters()}
        self._n_inputs = n_inputs
        self.convolution: tuple[Any, ...] | None = None
        self.tokens: _FirstLayer | None = None

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func is torch.ops.aten.convolution.default:
            self.convolution = args
            raise _Reached
        if self.tokens is None and func in (torch.ops.aten.addmm.default, torch.ops.aten.mm.default):
            self._keep_tokens(*args[-2:])
        return func(*args, **(kwargs or {}))

    def _keep_tokens(self, rows: Tensor, transposed: Tensor) -> None:
        """Keep a product of rows with a weight of the model, if there are several rows for every input."""
        name, shape = self._names.get(transposed.data_ptr(), ("", None))
        tokens, rest = divmod(len(rows), self._n_inputs)
        if shape == transposed.mT.shape and rest == 0 and tokens > 1:
            seen = rows.reshape(self._n_inputs, tokens, -1)
            self.tokens = _FirstLayer(name, seen, transposed.mT, (), (), (), 1)

    def name_of(self, weight: Tensor) -> str:
        return self._names.get(weight.data_ptr(), ("the first convolution", None))[0]


def _first_layer(model: nn.Module, inputs: Tensor) -> _FirstLayer:
    demand_differentiable(model)
    parameter = next(model.parameters(), None)
    if parameter is not None:
        inputs = inputs.to(parameter.device, parameter.dtype)
    with torch.no_grad(), evaluating(model), _Catcher(model, len(inputs)) as catcher:
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
        name = catcher.name_of(weight)
        return _FirstLayer(name, seen, weight, tuple(stride), tuple(padding), tuple(dilation), groups)
    tokens: _FirstLayer | None = catcher.tokens
    if tokens is not None:
        return tokens
    raise InvalidInput(
        f"the model must hold a convolution or a linear layer over patches, but a forward pass of "
        f"{type(model).__name__} met neither. Energy profiles are defined for layers over patches."
    )
