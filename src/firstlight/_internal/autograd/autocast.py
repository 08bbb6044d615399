"""Models that switch to half precision by themselves, measured in single precision."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

_HALF = (torch.float16, torch.bfloat16)


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
