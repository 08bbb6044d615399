"""Record the convolutions and linear maps that a forward pass really applies, and tap their outputs.

What a module's class and its `weight` say need not be what it computes: it may pad by itself, standardise
its weights, draw them from a parametrisation, or apply weights that belong to another module. The
operation itself cannot differ from what it is given, so that is where we look.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrize
from torch.overrides import TorchFunctionMode

from firstlight._internal.autograd.hooks import GradientTap, Receive, Running, ignore, running_modules
from firstlight._internal.autograd.layers import AppliedLayer

_FUNCTIONS: dict[Any, str] = {F.conv1d: "conv1d", F.conv2d: "conv2d", F.conv3d: "conv3d", F.linear: "linear"}
for _kind in tuple(_FUNCTIONS.values()):  # exported programs call these instead
    _packet = getattr(torch.ops.aten, _kind)
    _FUNCTIONS[_packet] = _kind
    _FUNCTIONS |= {getattr(_packet, overload): _kind for overload in _packet.overloads()}


@dataclass(frozen=True, eq=False)
class Call:
    """One application of a layer: what it was given, and what came out before anything can overwrite it."""

    layer: AppliedLayer
    inputs: Tensor
    bias: Tensor | None
    outputs: Tensor


Look = Callable[[Call], None]


def _unguarded(function: Any) -> FunctionType:
    """A copy of one of PyTorch's functions that lets the operations inside it be seen one by one.

    While a function mode is active, such a function hands itself over as a whole, and the mode is off
    while it runs. The copy differs in the answer to the question whether a mode is active.
    """
    # the same code with other globals: PyTorch's own function is not touched
    names = {**function.__globals__, "has_torch_function": lambda tensors: False}
    unguarded = FunctionType(function.__code__, names, function.__name__, function.__defaults__)
    unguarded.__kwdefaults__ = function.__kwdefaults__
    return unguarded


_attention = _unguarded(F.multi_head_attention_forward)


class _FunctionMode(TorchFunctionMode):
    """Shows every convolution and linear map to `record`, whose result takes the place of the output."""

    def __init__(self, record: Callable[..., Tensor]) -> None:
        super().__init__()
        self._record = record

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if func is F.multi_head_attention_forward:
            # entered again, for the mode is off while it handles a function
            with self:
                return _attention(*args, **kwargs)
        outputs = func(*args, **kwargs)
        kind = _FUNCTIONS.get(func)
        return outputs if kind is None else self._record(kind, outputs, *args, **kwargs)


class Recorder:
    """Runs a model, records the layers that it applies, and reports the gradients at their outputs.

    Layers are learned by :meth:`discover` and fixed from then on. A weight that is computed anew in every
    forward pass must then be the same in every pass; where it is not, its name appears in `varying`.

    Parameters
    ----------
    model : torch.nn.Module
        In evaluation mode.

    Attributes
    ----------
    layers : dict of str to AppliedLayer
        By name, in the order of their first call.
    called : set of str
        Modules whose forward ran.
    varying : set of str
        Names under which an operation with other weights than the known ones was met.
    calls : dict of str to int
        How often each layer was called in the last forward pass.
    elements : dict of str to int
        Numbers in all outputs of a layer in the last forward pass.
    anchor : Tensor
        Ask for the gradient of the model's output with respect to it; every backward pass then reports
        the gradients at the outputs of the layers that hang on it, and goes no deeper than they lie.
    anchors : tuple of Tensor
        The same for layers that were tapped apart, group by group.
    """

    def __init__(self, model: nn.Module) -> None:
        self.model = model
        self.layers: dict[str, AppliedLayer] = {}
        self.called: set[str] = set()
        self.varying: set[str] = set()
        self.anchor = torch.zeros((), requires_grad=True)
        self._parameters = {id(parameter): name for name, parameter in model.named_parameters()}
        self._same_base: dict[str, list[AppliedLayer]] = {}
        self._is_open = True
        self._tapped: frozenset[str] = frozenset()
        self.anchors: tuple[Tensor, ...] = ()
        self._apart: dict[str, Tensor] = {}
        self._receive: Receive = ignore
        self._look: Look = ignore
        self._stack: Running = []
        self.forget()

    def discover(self, image: Tensor) -> dict[str, AppliedLayer]:
        """Learn the layers from a forward pass that keeps no gradients."""
        with torch.no_grad():
            self.forward(image)
        # layers that appear later depend on the images, and W would not be one matrix
        self._is_open = False
        return self.layers

    def tap(self, names: Iterable[str], receive: Receive, *, apart: Sequence[Iterable[str]] = ()) -> None:
        """Report gradients at the outputs of these layers from now on, once per backward pass and call.

        Groups in `apart` hang on anchors of their own; a pass for one anchor reports what it meets of the others.
        """
        self._tapped, self._receive = frozenset(names), receive
        self.anchors = tuple(torch.zeros((), requires_grad=True) for _ in apart)
        self._apart = {
            name: anchor for group, anchor in zip(apart, self.anchors, strict=True) for name in group
        }

    def look_at(self, look: Look) -> None:
        """Show every call from now on."""
        self._look = look

    def forward(self, images: Tensor) -> Any:
        """Run the model; only while it runs does anything hang on it."""
        self.forget()
        with running_modules(self.model, self.called) as stack, _FunctionMode(self._record):
            self._stack = stack
            return self.model(images)

    def forget(self) -> None:
        """Let go of the last forward pass and of the graph behind it."""
        self.calls: dict[str, int] = {}
        self.elements: dict[str, int] = {}
        self._nodes: dict[tuple[str, int], Any] = {}

    def source(self, result: Tensor) -> tuple[str, int] | None:
        """Layer and call that made `result`, if nothing was done to it since."""
        # outputs that hang on nothing are refused where gradients are taken
        if result.grad_fn is None:
            return None
        return next((key for key, node in self._nodes.items() if node is result.grad_fn), None)

    def _record(
        self,
        kind: str,
        outputs: Tensor,
        input: Tensor,  # the names and the order are PyTorch's
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        layer = self._layer(kind, weight, groups)
        if layer is None:
            return outputs
        name = layer.name
        call = self.calls.get(name, 0)
        self.calls[name] = call + 1
        self.elements[name] = self.elements.get(name, 0) + outputs.numel()
        self._look(Call(layer, input, bias, outputs))
        if name not in self._tapped:
            return outputs
        anchor = self._apart.get(name, self.anchor)
        passed: Tensor = GradientTap.apply(outputs, anchor, partial(self._receive, name, call))  # type: ignore[no-untyped-call]
        # if the outputs of the model have this very node, this call gave them and Q there is the identity
        self._nodes[name, call] = passed.grad_fn
        return passed

    def _layer(self, kind: str, weight: Tensor, groups: int) -> AppliedLayer | None:
        """The known layer that this call belongs to, or a new one, or None once the list is closed."""
        # biases as weights, empty layers and whole numbers have no filters
        if weight.ndim < 2 or weight.numel() == 0 or not weight.is_floating_point():
            return None
        base = self._base_name(kind, weight)
        known = self._same_base.setdefault(base, [])
        for layer in known:
            if (
                layer.groups == groups
                and layer.is_linear == (kind == "linear")
                and _same(layer.weight, weight)
            ):
                return layer
        if not self._is_open:
            self.varying.add(base)
            return None
        name = base if not known else f"{base} ({len(known) + 1})"
        module = self.model.get_submodule(base) if base in self.called else None
        layer = AppliedLayer(
            name=name,
            kind=kind if module is None else type(module).__name__,
            weight=weight.detach(),
            groups=groups,
            is_linear=kind == "linear",
        )
        known.append(layer)
        self.layers[name] = layer
        return layer

    def _base_name(self, kind: str, weight: Tensor) -> str:
        """Name of the module that stands for the weight, or of the weight itself, or of the function."""
        path, module = self._stack[-1] if self._stack else ("", self.model)
        if module._parameters.get("weight") is weight:  # also where two modules share it
            return path
        parameter = self._parameters.get(id(weight))
        if parameter is not None:
            prefix, _, leaf = parameter.rpartition(".")
            return prefix if leaf == "weight" else parameter
        # Computed on the way: standardised, reparametrised, masked, or a part of something larger.
        has_weight = "weight" in module._parameters or isinstance(vars(module).get("weight"), Tensor)
        if has_weight or parametrize.is_parametrized(module, "weight"):
            return path
        return f"{path}.{kind}".lstrip(".")


def _same(known: Tensor, weight: Tensor) -> bool:
    """Whether two weights are equal up to rounding; most are one and the same piece of memory."""
    if known.shape != weight.shape:
        return False
    # parameters keep their memory from pass to pass: no comparison of numbers is needed
    if known.data_ptr() == weight.data_ptr() and known.stride() == weight.stride():
        return True
    scale = max(float(known.abs().max()), float(weight.detach().abs().max()))
    tolerance = 100 * torch.finfo(known.dtype).eps ** 0.75
    return bool((known - weight.detach()).abs().max() <= tolerance * scale)
