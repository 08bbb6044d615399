"""Filters that respond to at least one image, from forward passes alone, and filters that do nothing new."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves

from firstlight._internal.autograd.forward_recorder import Call, Recorder
from firstlight._internal.autograd.layers import chosen_layers
from firstlight._internal.autograd.model_outputs import run
from firstlight._internal.autograd.model_state import evaluating, in_full_precision
from firstlight._internal.devices import follows_device
from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight.models.kinds import unwrapped

ENOUGH_IMAGES = 1000  # silence on so many means silence on fewer than .3 % of all, at 95 %
BLOCK_PIXELS = 64 * 64**2  # pixels of one forward pass
_SOURCES = (
    "_firstlight_sources"  # attribute of a tensor: the layers whose outputs it holds, channel by channel
)

_ARITHMETIC = ("add", "sub", "mul", "div", "truediv")
_MIXING = {
    form.format(name) for name in _ARITHMETIC for form in ("{}", "{}_", "__{}__", "__i{}__", "__r{}__")
}
_GATES = {
    "relu", "relu_", "relu6", "hardtanh", "hardtanh_", "clamp", "clamp_", "clamp_min", "clamp_min_", "threshold",
    "threshold_", "hardswish",
}  # fmt: skip
_ALONE = {
    "batch_norm", "instance_norm", "group_norm", "dropout", "dropout_", "dropout2d", "feature_dropout", "pad",
    "interpolate", "max_pool1d", "max_pool2d", "max_pool3d", "avg_pool1d", "avg_pool2d", "avg_pool3d",
    "adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", "adaptive_max_pool2d", "clone", "detach",
    "contiguous", "to", "float",
}  # fmt: skip


class FilterActivity(NamedTuple):
    """Which filters respond.

    Parameters
    ----------
    active : dict of str to bool Tensor of shape (k,)
        By layer, one entry per filter.
    n_images : int
        Images that were passed through the network; fewer than given if no filter was left to look for.
    """

    active: dict[str, Bool[Tensor, " k"]]
    n_images: int


@follows_device
def filter_activity(
    model: nn.Module,
    images: Float[Tensor, "n *shape"],
    *,
    layers: str | Sequence[str] = "all",
    n_images: int = ENOUGH_IMAGES,
    seed: int = 0,
) -> FilterActivity:
    r"""Which filters respond to at least one image?

    A filter is silent if its channel is zero at every position of every image, where the next layer reads it: behind
    normalisation, pooling and a rectifier, and before anything else is added to it. A filter that was silent on n
    images is silent on all but a share :math:`3/n` of such images, at 95 % (the rule of three). What cannot be
    followed (concatenations, smooth activations) counts as active.

    Parameters
    ----------
    model : torch.nn.Module
        Any module that maps images to outputs; it runs in evaluation mode and is left as it was.
    images : Tensor of shape (n, ...)
        As the model expects them.
    layers : str or sequence of str, default 'all'
        "all", "convolutions", or names of layers.
    n_images : int, default ENOUGH_IMAGES
        Maximum number of images, drawn at random.
    seed : int, default 0
        Seed of that draw.

    Notes
    -----
    At most one forward pass per image; it ends as soon as every filter has responded.

    Examples
    --------
    >>> layer = nn.Conv2d(1, 2, 1)
    >>> _ = nn.init.constant_(layer.weight, 1.0), nn.init.constant_(layer.bias, -5.0)
    >>> layer.bias.data[1] = 0.0
    >>> filter_activity(nn.Sequential(layer, nn.ReLU(), nn.Flatten()), torch.ones(3, 1, 2, 2)).active["0"].tolist()
    [False, True]
    """
    if len(images) == 0 or n_images < 1:
        raise InvalidInput(
            f"`images` and `n_images` must hold at least one; got {len(images)} and {n_images}."
        )
    model, _ = in_full_precision(unwrapped(model))
    order = torch.randperm(len(images), generator=generator_from("filter activity", seed))[:n_images]
    with torch.no_grad(), evaluating(model):
        responses = Responses(model, images[:1], layers=layers)
        for index in torch.split(order, block_size(images)):
            if responses.are_complete:
                break
            responses.add(images[index.to(images.device)])
    return responses.result()


def block_size(images: Float[Tensor, "n *shape"]) -> int:
    """Images of one forward pass."""
    return max(1, min(64, BLOCK_PIXELS // max(1, images[0, 0].numel())))


class Responses:
    """Which filters of a network have responded so far, batch by batch.

    Whoever calls it holds the model in evaluation mode.
    """

    def __init__(self, model: nn.Module, first: Tensor, *, layers: str | Sequence[str] = "all") -> None:
        names = layers if isinstance(layers, str) else tuple(layers)
        self.recorder, self.n_images = Recorder(model), 0
        self.like = next(model.parameters())
        applied = run(model, first[:1].to(self.like), forward=self.recorder.discover)
        sizes = {name: len(layer.weight) for name, layer in chosen_layers(model, applied, names).items()}
        self.trace = _Trace(sizes)
        self.recorder.look_at(self.trace.begin)

    @property
    def are_complete(self) -> bool:
        """Whether every filter has responded."""
        return self.n_images > 0 and all(bool(active.all()) for active in self.trace.active.values())

    def add(self, images: Tensor) -> Any:
        """Pass images through the network and return its outputs; nothing is looked for if all have responded."""
        model, images = self.recorder.model, images.to(self.like)
        if self.are_complete:
            return run(model, images)
        with self.trace:
            outputs = run(model, images, forward=self.recorder.forward)
            self.trace.end(outputs)
        self.n_images += len(images)
        return outputs

    def result(self) -> FilterActivity:
        """Which filters responded; a layer that nothing was seen to read is no silent layer."""
        active = {
            name: found.clone() if name in self.trace.read else torch.ones_like(found)
            for name, found in self.trace.active.items()
        }
        return FilterActivity(active, self.n_images)


Sources = dict[
    tuple[str, int], Tensor | None
]  # layer and axis of its channels: those not yet found to be zero


class _Trace(TorchFunctionMode):
    """Follows the outputs of layers to where they are read, through all that keeps their channels apart."""

    def __init__(self, sizes: dict[str, int]) -> None:
        super().__init__()
        self.active = {name: torch.zeros(k, dtype=torch.bool) for name, k in sizes.items()}
        self.read: set[str] = set()

    def begin(self, call: Call) -> None:
        """Follow the outputs of a layer, unless all its filters have responded."""
        name, axis = call.layer.name, -1 if call.layer.is_linear else 1
        if name not in self.active or call.outputs.ndim < 2:
            return
        if not self.active[name].all() and call.outputs.shape[axis] == len(self.active[name]):
            setattr(call.outputs, _SOURCES, {(name, axis): None})

    def end(self, outputs: Any) -> None:
        """What the model returns is read by whoever called it."""
        for tensor, sources in _followed(outputs):
            self._note(tensor, sources)

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        operands = list(_followed((args, kwargs)))
        if not operands:
            return func(*args, **(kwargs or {}))
        name = getattr(func, "__name__", "").partition(".")[0]
        # a sum hides which operand was zero, and one in place overwrites it
        parts = [sources if name not in _MIXING else _without_zeros(x, sources) for x, sources in operands]
        is_known = name in _GATES | _MIXING | _ALONE
        if not is_known and name.endswith("_") and not name.startswith("__"):
            self._note_all(operands)
        result = func(*args, **(kwargs or {}))
        if not isinstance(result, Tensor):
            if any(isinstance(leaf, Tensor) for leaf in tree_leaves(result)):
                self._note_all(operands)
            return result
        if any(result is x for x, _ in operands) and not is_known:
            return result  # such as `contiguous` of what is contiguous
        sources = {key: mask for part in parts for key, mask in part.items()}
        if name in _GATES:
            self._note(result, sources)
            setattr(result, _SOURCES, {})
        elif is_known and all(_has_channels(result, key, self.active) for key in sources):
            setattr(result, _SOURCES, sources)
        else:
            self._note_all(operands)
        return result

    def _note_all(self, operands: Sequence[tuple[Tensor, Sources]]) -> None:
        for tensor, sources in operands:
            self._note(tensor, sources)

    def _note(self, tensor: Tensor, sources: Sources) -> None:
        """Channels of `tensor` that are not zero are active in all layers that it holds."""
        for (name, axis), mask in sources.items():
            self.read.add(name)
            found = _is_not_zero(tensor, axis)
            self.active[name] |= (found if mask is None else found & mask).cpu()


def _followed(values: Any) -> Iterator[tuple[Tensor, Sources]]:
    for leaf in tree_leaves(values):
        if isinstance(leaf, Tensor) and (sources := vars(leaf).get(_SOURCES)):
            yield leaf, sources


def _without_zeros(tensor: Tensor, sources: Sources) -> Sources:
    found = {key: _is_not_zero(tensor, key[1]) for key in sources}
    return {key: found[key] if mask is None else found[key] & mask for key, mask in sources.items()}


def _has_channels(tensor: Tensor, key: tuple[str, int], active: dict[str, Tensor]) -> bool:
    name, axis = key
    return tensor.ndim >= 2 and tensor.shape[axis] == len(active[name])


def _is_not_zero(tensor: Tensor, axis: int) -> Bool[Tensor, " k"]:
    """Channels with a number other than zero at any position of any image."""
    others = [i for i in range(tensor.ndim) if i != axis % tensor.ndim]
    return (tensor.amax(others) != 0) | (tensor.amin(others) != 0)


@dataclass(frozen=True, kw_only=True)
class FilterFaults(Result):
    """Filters of a layer that do nothing, or nothing new.

    Parameters
    ----------
    name : str
        Name of the layer.
    n_filters : int
        How many it has.
    dead : tuple of int
        Filters that respond to no image that was looked at, and filters that are zero.
    duplicates : tuple of tuple of int
        Sets of filters that point in one direction (cosine above the threshold).
    mirrored : int
        Number of pairs that point in opposite directions.
    threshold : float
        Cosine from which two filters count as the same.
    n_images : int
        Images behind `dead`.
    """

    name: str
    n_filters: int
    dead: tuple[int, ...]
    duplicates: tuple[tuple[int, ...], ...]
    mirrored: int
    threshold: float
    n_images: int = 0

    @property
    def n_superfluous(self) -> int:
        """Filters that repeat another one."""
        return sum(len(same) - 1 for same in self.duplicates)


def filter_faults(
    filters: Float[Tensor, "g k d"],
    active: Bool[Tensor, " filters"],
    *,
    n_images: int = 0,
    name: str = "",
    threshold: float = 0.99,
) -> FilterFaults:
    """Dead and duplicate filters.

    Parameters
    ----------
    filters : Tensor of shape (g, k, d)
        Rows of a layer, group by group.
    active : bool Tensor of shape (filters,)
        Which of them respond to an image, as :func:`filter_activity` tells; of all groups in a row.
    n_images : int, default 0
        Images behind `active`.
    name : str, default ''
        Name of the layer.
    threshold : float, default 0.99
        Cosine from which two filters of a group count as the same.

    Examples
    --------
    >>> rows = torch.tensor([[[1.0, 0.0], [2.0, 0.0], [0.0, 1.0], [0.0, 0.0]]]).double()
    >>> faults = filter_faults(rows, torch.ones(4).bool())
    >>> faults.dead, faults.duplicates
    ((3,), ((0, 1),))
    """
    g, k, _ = filters.shape
    norms = filters.norm(dim=2)
    # relative to the layer: weight decay leaves tiny filters, never exact zeros
    zero = norms <= 1e-6 * norms.median()
    dead = zero.flatten() | ~active
    # cosines of all pairs at once: one product of unit rows
    unit = filters / torch.where(zero, 1.0, norms)[..., None]
    cosines = torch.where((zero[:, :, None] | zero[:, None, :]), 0.0, unit @ unit.mT)
    mirrored = int((cosines < -threshold).sum()) // 2
    duplicates = [
        tuple(group * k + i for i in same)
        for group in range(g)
        for same in _connected((cosines[group] > threshold).fill_diagonal_(False))
    ]
    return FilterFaults(
        name=name,
        n_filters=g * k,
        dead=tuple(dead.nonzero().flatten().tolist()),
        duplicates=tuple(duplicates),
        mirrored=mirrored,
        threshold=threshold,
        n_images=n_images,
    )


def _connected(linked: Tensor) -> Iterator[tuple[int, ...]]:
    """Sets of two and more indices that links join."""
    unvisited = set(linked.any(1).nonzero().flatten().tolist())
    while unvisited:
        joined, frontier = set(), {unvisited.pop()}
        while frontier:
            joined |= frontier
            frontier = {int(j) for i in frontier for j in linked[i].nonzero().flatten()} - joined
        unvisited -= joined
        yield tuple(sorted(joined))
