"""Read what enters and leaves given modules, and the gradients at their outputs, by forward hooks.

Everything is removed again when the block ends, however it ends.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

Receive = Callable[[str, int, Tensor], None]
"""Called with a layer's name, the number of its call in this forward pass, and the gradient."""

Look = Callable[[str, Tensor, Tensor], None]
"""Called with a layer's name, its input and its output, before anything can overwrite them."""


def ignore(*arguments: Any) -> None:
    """Ignore what is reported."""


class GradientTap(torch.autograd.Function):
    """Passes a tensor on, and reports the gradient that arrives there.

    The anchor makes the engine come here although nothing before may need a gradient: weights may be
    frozen and images are constants. As only the anchor's gradient is asked for, those of the weights
    are never computed. The copy keeps the value safe from in-place activations.
    """

    @staticmethod
    def forward(ctx: Any, output: Tensor, anchor: Tensor, receive: Callable[[Tensor], None]) -> Tensor:
        """Copy the layer's output."""
        ctx.receive = receive
        ctx.anchor_like = torch.zeros_like(anchor)
        # not a view: autograd refuses in-place operations on views that a custom function returned
        return output.clone()

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, Tensor, None]:
        """Report the gradient and pass it on."""
        (gradient,) = gradients
        ctx.receive(gradient)
        # zeros for the anchor: only that something depends on it matters
        return gradient if ctx.needs_input_grad[0] else None, ctx.anchor_like, None


class _Taps:
    """What :func:`tap_outputs` knows of the forward pass that ran last.

    Parameters
    ----------
    anchor
        Ask for the gradient of the model's output with respect to it; every backward pass then reports
        all gradients at the outputs of the layers.
    calls
        How often each layer was called.
    """

    def __init__(self) -> None:
        self.anchor = torch.zeros((), requires_grad=True)
        self.forget()

    def forget(self) -> None:
        """Begin a new forward pass."""
        self.calls: dict[str, int] = {}


@contextmanager
def tap_outputs(
    layers: Mapping[str, nn.Module], receive: Receive = ignore, *, look: Look = ignore
) -> Iterator[_Taps]:
    """Tap the outputs of `layers` while the block runs.

    Parameters
    ----------
    layers : mapping of str to torch.nn.Module
        Modules that return one tensor, by name.
    receive : Receive, default ignore
        Called with every gradient at an output, once per backward pass and call.
    look : Look, default ignore
        Called with the input and output of every call.
    """
    taps = _Taps()

    def hook(name: str) -> Callable[..., Tensor]:
        def after(module: nn.Module, arguments: tuple[Any, ...], output: Tensor) -> Tensor:
            call = taps.calls.get(name, 0)
            # a module that is used twice has two gradients; the number tells them apart
            taps.calls[name] = call + 1
            look(name, arguments[0], output)
            passed: Tensor = GradientTap.apply(  # type: ignore[no-untyped-call]
                output, taps.anchor, lambda gradient: receive(name, call, gradient)
            )
            return passed

        return after

    handles = [layer.register_forward_hook(hook(name)) for name, layer in layers.items()]
    try:
        yield taps
    finally:
        for handle in handles:
            handle.remove()
        taps.forget()


Running = list[tuple[str, nn.Module]]


@contextmanager
def running_modules(model: nn.Module, called: set[str] | None = None) -> Iterator[Running]:
    """The modules of `model` that are running, by name, the innermost last; kept up to date in the block.

    Parameters
    ----------
    model : torch.nn.Module
        The model.
    called : set of str, optional
        Receives the names of all modules that ran.
    """
    stack: Running = []
    handles = []

    def entering(name: str) -> Callable[..., None]:
        def enter(module: nn.Module, arguments: Any) -> None:
            stack.append((name, module))
            if called is not None:
                called.add(name)

        return enter

    def leave(module: nn.Module, arguments: Any, outputs: Any) -> None:
        stack.pop()

    try:
        for name, module in model.named_modules():
            # before all other hooks, which may compute the weight on the module's behalf
            handles.append(module.register_forward_pre_hook(entering(name), prepend=True))
            handles.append(module.register_forward_hook(leave, always_call=True))
        yield stack
    finally:
        for handle in handles:
            handle.remove()


def layer_inputs(model: nn.Module, layers: Mapping[str, nn.Module], images: Tensor) -> dict[str, Tensor]:
    """What each of `layers` is given while `model` looks at `images`; copies of the last call.

    A layer that the forward pass does not reach is absent.
    """
    seen: dict[str, Tensor] = {}

    def hook(name: str) -> Callable[..., None]:
        def before(module: nn.Module, arguments: tuple[Any, ...]) -> None:
            # a copy: an activation after it may write over the memory
            seen[name] = arguments[0].detach().clone()

        return before

    handles = [layer.register_forward_pre_hook(hook(name)) for name, layer in layers.items()]
    try:
        with torch.no_grad():
            model(images)
    finally:
        for handle in handles:
            handle.remove()
    return seen
