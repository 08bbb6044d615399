"""Look at a model without leaving a trace, in full precision, and refuse models whose gradients would mean nothing."""

import contextlib
import copy
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from firstlight._internal.devices import random_state, restore_random_state
from firstlight._internal.errors import InvalidInput

_HALF = (torch.float16, torch.bfloat16)
_QUANTISED = (
    "torch.ao.nn.quantized",
    "torch.ao.nn.intrinsic.quantized",
    "torch.ao.nn.sparse.quantized",
    "torch.nn.quantized",
    "torch.nn.intrinsic.quantized",
)


@contextmanager
def evaluating(model: nn.Module) -> Iterator[None]:
    """Put every module in evaluation mode, and leave the model as it was, whatever happens in the block.

    Restored are the mode of every module, all buffers, all tensors that modules hold as plain attributes
    and PyTorch's random state. Buffers change even in evaluation mode where a forward pass writes to
    them; plain attributes hold the weight that the hooks of `weight_norm`, `spectral_norm` and `prune`
    computed last.
    """
    modules = list(model.modules())
    modes = [module.training for module in modules]
    buffers = [
        (module, name, value, value.detach().clone())
        for module in modules
        for name, value in module._buffers.items()
        if value is not None
    ]
    attributes = [
        (module, name, value)
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Tensor)
    ]
    devices = {p.device for p in model.parameters()}
    random = {device: random_state(device) for device in devices}
    # exported programs refuse: their mode was fixed when they were traced
    with contextlib.suppress(NotImplementedError):
        model.eval()
    try:
        # layers that draw at random in evaluation mode must not shift the user's random numbers
        with torch.random.fork_rng(devices=[]):
            yield
    finally:
        for device, state in random.items():
            restore_random_state(device, state)
        for module, mode in zip(modules, modes, strict=True):
            module.training = mode
        for module, name, value, before in buffers:
            module._buffers[name] = value  # a forward pass may have bound another tensor to the name
            # written back only where it changed: the version counter of an untouched buffer stays as it was
            if not torch.equal(value, before):
                with torch.no_grad():
                    value.copy_(before)
        # bound again, not copied: hooks replace these tensors instead of writing into them
        for module, name, value in attributes:
            vars(module)[name] = value


def copied(model: nn.Module) -> nn.Module:
    """A deep copy; also of models whose modules hold computed tensors, which `deepcopy` refuses.

    The hooks of `weight_norm` and `spectral_norm` leave such a tensor behind. Its copy needs no history,
    as the next forward pass computes it again.
    """
    computed = {
        id(value): value.detach().clone()
        for module in model.modules()
        for value in vars(module).values()
        if isinstance(value, Tensor) and not value.is_leaf
    }
    try:
        return copy.deepcopy(model, dict(computed))
    except (RuntimeError, TypeError) as error:
        raise InvalidInput(
            f"{type(model).__name__} must be copied, which failed: {str(error).splitlines()[0]}."
        ) from error


def in_full_precision(model: nn.Module) -> tuple[nn.Module, str]:
    """The model itself, or a copy in float32 if weights are in half precision, and a note that says so.

    Half precision keeps three digits. A gradient that passes twenty layers is then off by several
    per cent, and small ones vanish, so that filters look dead which are not.
    """
    halves = sorted({str(p.dtype).removeprefix("torch.") for p in model.parameters() if p.dtype in _HALF})
    if not halves:
        return model, ""
    return copied(model).float(), f"in float32 (the weights are stored in {' and '.join(halves)})"


def demand_differentiable(model: nn.Module) -> None:
    """Refuse models without weights of their own (lazy, meta) and models in whole numbers (quantised)."""
    for name, parameter in model.named_parameters():
        if isinstance(parameter, nn.UninitializedParameter):
            raise InvalidInput(
                f"the model must have its weights; {name!r} is lazy and has none yet. Run the model once on "
                "an image and load its trained weights before."
            )
        if parameter.is_meta:
            raise InvalidInput(
                f"the model must have its weights; {name!r} is on the meta device, which stores none. "
                "Move the model with `to_empty` and load its weights before."
            )
    for name, module in model.named_modules():
        if _is_quantised(module):
            raise InvalidInput(
                f"the model must compute in floating point; layer {name!r} ({type(module).__name__}) is "
                "quantised, and whole numbers have no gradient. Use the model from before its quantisation."
            )


def _is_quantised(module: nn.Module) -> bool:
    if type(module).__module__.startswith(_QUANTISED) or hasattr(module, "_packed_params"):
        return True
    weight = module._parameters.get("weight", module._buffers.get("weight"))
    return weight is not None and not (weight.is_floating_point() or weight.is_complex())


class _WithoutAutocast(TorchFunctionMode):
    """Runs every operation outside autocast, and takes note of the precision that autocast asked for."""

    def __init__(self, device: str, met: set[str]) -> None:
        super().__init__()
        self._device, self._met = device, met

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        kwargs = kwargs or {}
        if not torch.is_autocast_enabled(self._device):
            return func(*args, **kwargs)
        self._met.add(str(torch.get_autocast_dtype(self._device)).removeprefix("torch."))
        with torch.autocast(self._device, enabled=False):
            result = func(*args, **kwargs)
        # what a forward pass casts by hand inside autocast would not fit weights in single precision
        return result.float() if isinstance(result, Tensor) and result.dtype in _HALF else result


@contextmanager
def without_autocast(*models: nn.Module) -> Iterator[set[str]]:
    """Keep the forward passes of these models, and of copies made meanwhile, in the precision of their weights.

    Autocast inside a forward pass cannot be switched off from outside; its operations can be taken out of it one
    by one. Half precision keeps three digits, too few for gradients through many layers.

    Parameters
    ----------
    *models : torch.nn.Module
        Models whose forward pass may enter `torch.autocast`.

    Yields
    ------
    set of str
        Precisions that autocast asked for, such as "float16"; filled by the forward passes.
    """
    met: set[str] = set()
    entered: list[ExitStack] = []

    def enter(module: nn.Module, inputs: Any) -> None:
        parameter = next(module.parameters(), None)
        device = "cpu" if parameter is None else parameter.device.type
        entered.append(ExitStack())
        entered[-1].enter_context(_WithoutAutocast(device, met))

    def leave(module: nn.Module, inputs: Any, outputs: Any) -> None:
        entered.pop().close()

    handles = [
        handle
        for model in {id(model): model for model in models}.values()
        for handle in (
            model.register_forward_pre_hook(enter, prepend=True),
            model.register_forward_hook(leave, always_call=True),
        )
    ]
    try:
        yield met
    finally:
        for handle in handles:
            handle.remove()
        while entered:  # Ctrl-C ends a forward pass without its hook
            entered.pop().close()
