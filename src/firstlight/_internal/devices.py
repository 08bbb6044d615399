"""Where to compute: one choice for commands, functions and worker processes.

Seeds mean the same on every device: weights, orders and signs are drawn on the CPU and moved. Results come back to
the CPU, so that what is stored, drawn or compared never asks where it was computed.
"""

import copy
import functools
import itertools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, ParamSpec, TypeVar

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput

CPU = torch.device("cpu")
DeviceLike = str | torch.device
_chosen: torch.device | None = None

P = ParamSpec("P")
R = TypeVar("R")


def choose_device(name: DeviceLike) -> torch.device:
    """Return the device of that name; ``"auto"`` takes cuda, then mps, else the CPU.

    Raises
    ------
    InvalidInput
        If there is no such device, or not on this machine.
    """
    if str(name) == "auto":
        return next((_numbered(device) for device in _accelerators()), CPU)
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InvalidInput(_demand(f"got {str(name)!r}")) from None
    if device.type == "cpu":
        return CPU
    there = [other.type for other in _accelerators()]
    if device.type not in there:
        raise InvalidInput(_demand(_why_not(device.type)))
    count = 1 if device.type == "mps" else torch.get_device_module(device).device_count()
    if device.index is not None and device.index >= count:
        raise InvalidInput(_demand(f"got {device}, but this machine has {count} of them, counted from 0"))
    return _numbered(device)


def _accelerators() -> list[torch.device]:
    """Devices of this machine besides the CPU, the preferred first."""
    found = [kind for kind in ("cuda", "mps") if getattr(torch, kind).is_available()]
    other = torch.accelerator.current_accelerator(check_available=True)
    if other is not None and other.type not in found:
        found.append(other.type)
    return [torch.device(kind) for kind in found]


def _numbered(device: torch.device) -> torch.device:
    """The device as its tensors name it, with a number, so that the two compare equal."""
    number: int | None = device.index  # None if none was given, whatever torch's annotation says
    if number is None:
        number = 0 if device.type == "mps" else torch.get_device_module(device).current_device()
    return torch.device(device.type, number)


def _demand(what_came: str) -> str:
    here = ", ".join(["cpu", *(device.type for device in _accelerators())])
    return f"`device` must be auto, cpu, cuda or mps; {what_came}. This machine has: {here}."


def _why_not(kind: str) -> str:
    backend = getattr(torch.backends, kind, None)
    if kind in ("cuda", "mps") and backend is not None and backend.is_built():
        return f"torch finds no {kind} device here"
    return f"{kind} is not available in this build of torch ({torch.__version__})"


@contextmanager
def computing_on(device: DeviceLike | None) -> Iterator[torch.device]:
    """Train and measure on a device inside the block, whatever is called there.

    Networks that lie elsewhere are moved for each training or measurement and then given back; images are moved a
    batch at a time. Tasks that are given to other processes and machines compute on the same kind of device.

    Parameters
    ----------
    device : str, torch.device or None
        "auto" (cuda, then mps, else the CPU), "cpu", "cuda", "cuda:1", "mps"; None keeps what the code around the
        block has chosen.

    Yields
    ------
    torch.device
        The device.

    Examples
    --------
    >>> with computing_on("cpu") as device:
    ...     print(device)
    cpu
    """
    global _chosen
    before = _chosen
    if device is not None:
        _chosen = choose_device(device)
    try:
        yield _chosen or CPU
    finally:
        _chosen = before


def chosen_device() -> torch.device | None:
    """The device that :func:`computing_on` has chosen around here, if any."""
    return _chosen


def device_of(model: nn.Module) -> torch.device:
    """Device of a network's first weight or buffer; the CPU if it holds none."""
    first = next(itertools.chain(model.parameters(), model.buffers()), None)
    return CPU if first is None else first.device


@contextmanager
def placed(*models: nn.Module, device: DeviceLike | None = None) -> Iterator[torch.device]:
    """Move networks to one device for the block, and give them back where they were.

    The device is `device`, else the one of :func:`computing_on`, else that of the first network; where that does not
    know the precision of the weights, the CPU. On it, single precision is single precision: cuda otherwise rounds
    the factors of convolutions to ten bits.
    """
    homes = [device_of(model) for model in models]
    target = choose_device(device) if device is not None else _chosen
    target = target or (homes[0] if homes else CPU)
    if not knows_float64(target) and any(p.dtype == torch.float64 for m in models for p in m.parameters()):
        target = CPU
    moved = [(model, home) for model, home in zip(models, homes, strict=True) if home != target]
    try:
        for model, _ in moved:
            model.to(target)
        with _all_bits(target):
            yield target
    finally:
        for model, home in moved:
            model.to(home)


@contextmanager
def _all_bits(device: torch.device) -> Iterator[None]:
    """Switch off TensorFloat-32, whose ten bits are too few for a claim."""
    if device.type != "cuda":
        yield
        return
    kinds: tuple[Any, ...] = (torch.backends.cudnn.conv, torch.backends.cuda.matmul)  # type: ignore[attr-defined]
    before = [kind.fp32_precision for kind in kinds]
    try:
        for kind in kinds:
            kind.fp32_precision = "ieee"
        yield
    finally:
        for kind, precision in zip(kinds, before, strict=True):
            kind.fp32_precision = precision


def follows_device(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function of networks: it runs where they are, or where `computing_on` says; its tensors come back.

    Every network among the arguments is placed where the first one is.
    """

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        models = [value for value in (*args, *kwargs.values()) if isinstance(value, nn.Module)]
        with placed(*models):
            result: R = on_cpu(function(*args, **kwargs))
            return result

    return run


def on_given_device(function: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function with a keyword `device`: its whole body computes there, see :func:`computing_on`."""

    @functools.wraps(function)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        device: Any = kwargs.get("device")
        with computing_on(device):
            return function(*args, **kwargs)

    return run


def on_cpu(value: Any) -> Any:
    """The value with every tensor in nested tuples, lists and dictionaries on the CPU.

    Containers in which nothing changes are returned themselves.
    """
    return with_tensors(value, Tensor.cpu)


def with_tensors(value: Any, change: Callable[[Tensor], Tensor]) -> Any:
    """The value with every tensor in nested tuples, lists and dictionaries changed; what stays the same is the same."""
    if isinstance(value, Tensor):
        return change(value)
    if type(value) is dict:
        entries = {key: with_tensors(entry, change) for key, entry in value.items()}
        return entries if any(entries[key] is not value[key] for key in value) else value
    if type(value) in (tuple, list):
        items = [with_tensors(item, change) for item in value]
        return type(value)(items) if any(a is not b for a, b in zip(items, value, strict=True)) else value
    return value


def in_double(model: nn.Module) -> nn.Module:
    """A copy of a network in float64, on the CPU if the device of the network does not know that."""
    twin = copy.deepcopy(model)
    return (twin if knows_float64(device_of(model)) else twin.cpu()).double()


def knows_float64(device: torch.device) -> bool:
    """Whether a device computes in double precision; Apple's does not."""
    module = None if device.type in ("cpu", "meta") else torch.get_device_module(device)
    return device.type != "mps" and not getattr(module, "lacks_float64", False)


def random_state(device: torch.device) -> Tensor | None:
    """State of a device's own generator, from which dropout draws; None for the CPU, whose state torch keeps."""
    if device.type in ("cpu", "meta") or not hasattr(
        module := torch.get_device_module(device), "get_rng_state"
    ):
        return None
    state: Tensor = module.get_rng_state() if device.type == "mps" else module.get_rng_state(device)
    return state


def restore_random_state(device: torch.device, state: Tensor | None) -> None:
    """Put back what :func:`random_state` returned."""
    if state is None:
        return
    module = torch.get_device_module(device)
    module.set_rng_state(state) if device.type == "mps" else module.set_rng_state(state, device)
