"""A second device without hardware: tensors on it wrap CPU tensors, compute there, and refuse to meet CPU tensors.

torch reserves one device for backends that are not its own (PrivateUse1) and since 2.10 lets Python define it. Every
operation on a tensor of this device runs on the CPU tensors inside, after the checks that a GPU would make: no tensor
of another device with axes may take part, and nothing of it can be read as NumPy. What passes here moves its batches,
its random numbers and its results as a GPU needs it; how fast or how precise a GPU is, it cannot say.
"""

import functools
from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import return_and_correct_aliasing
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend

from firstlight._internal.devices import chosen_device

NAME = "second"
aten = torch.ops.aten

# CUDA takes indices from the CPU too
_CPU_INDICES = {aten.index.Tensor, aten.index_put.default, aten.index_put_.default, aten._unsafe_index.Tensor}
_NOT_FACTORIES = ("sparse", "quantized", "nested", "mkldnn", "cudnn", "from_file", "_dep_token")


class SecondTensor(Tensor):
    """A tensor on the second device; `inside` is the CPU tensor that it stands for."""

    inside: Tensor

    @staticmethod
    def __new__(cls, inside: Tensor) -> "SecondTensor":
        if MODULE.lacks_float64 and inside.dtype == torch.float64:
            raise TypeError(
                f"Cannot convert a tensor to float64 on {NAME}: the device doesn't support float64."
            )
        made: SecondTensor = Tensor._make_wrapper_subclass(
            cls,
            inside.shape,
            strides=inside.stride(),
            storage_offset=inside.storage_offset(),
            dtype=inside.dtype,
            device=torch.device(NAME, 0),
        )
        made.inside = inside
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # only kernels differ, no function of torch

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})

    def _set_data(self, value: "SecondTensor") -> None:
        Tensor.data.__set__(self, value)
        self.inside = value.inside

    data = property(
        Tensor.data.__get__, _set_data
    )  # `module.double()` puts new numbers into the same parameters

    def data_ptr(self) -> int:
        """Address of the numbers, as tensors of other devices have one."""
        return self.inside.data_ptr()

    def tolist(self) -> Any:
        """Plain numbers, which torch refuses for subclasses only."""
        return self.inside.tolist()

    def numpy(self, *args: Any, **kwargs: Any) -> Any:
        """Refuse, as every device but the CPU does."""
        raise TypeError(f"can't convert {NAME}:0 device type tensor to numpy.")

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        """Copy the numbers; torch would copy the memory of the wrapper, which has none."""
        if id(self) not in memo:
            copy = SecondTensor(self.inside.detach().clone())
            is_weight = isinstance(self, nn.Parameter)
            memo[id(self)] = nn.Parameter(copy, self.requires_grad) if is_weight else copy
        return memo[id(self)]

    def __repr__(self, *args: Any, **kwargs: Any) -> str:
        return f"SecondTensor({self.inside})"


def _run(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Check devices, run the operation on the CPU tensors inside, and wrap what comes out."""
    if func is aten._to_copy.default:
        return _moved(args[0], kwargs)
    if func is aten.copy_.default:
        return _copy_from(args[1], args[0])
    _demand_one_device(func, args, kwargs)
    if func is aten._efficientzerotensor.default:
        func = aten.zeros.default
    target = kwargs.get("device")
    inner = {name: _inside(value) for name, value in kwargs.items()}
    if target is not None:
        inner["device"] = torch.device("cpu" if torch.device(target).type == NAME else target)
    out = func(*[_inside(value) for value in args], **inner)
    if target is not None and torch.device(target).type != NAME:
        return out
    return return_and_correct_aliasing(func, args, kwargs, _wrapped(out))


def _inside(value: Any) -> Any:
    if isinstance(value, SecondTensor):
        return value.inside
    if isinstance(value, (list, tuple)):
        return type(value)(_inside(item) for item in value)
    return value


def _wrapped(value: Any) -> Any:
    if isinstance(value, Tensor):
        return SecondTensor(value)
    if isinstance(value, (list, tuple)):
        return type(value)(_wrapped(item) for item in value)
    return value


def _moved(tensor: Tensor, options: dict[str, Any]) -> Tensor:
    """Copy between devices; the only way across."""
    target = torch.device(options.get("device") or tensor.device)
    inside = tensor.inside if isinstance(tensor, SecondTensor) else tensor
    options = {k: v for k, v in options.items() if k not in ("device", "pin_memory")}
    if target.type == "meta":
        return torch.empty_like(inside, device="meta", dtype=options.get("dtype"))
    copy = aten._to_copy.default(inside, **options)
    return SecondTensor(copy) if target.type == NAME else copy


def _demand_one_device(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Raise what CUDA raises if tensors of two devices meet; single numbers of the CPU may."""
    others = args[:1] if func in _CPU_INDICES else (*args, *kwargs.values())
    for tensor in _tensors(others):
        if not isinstance(tensor, SecondTensor) and tensor.ndim > 0:
            raise RuntimeError(
                f"Expected all tensors to be on the same device, but found at least two devices, {NAME}:0 and "
                f"{tensor.device}, in {func}."
            )


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from _tensors(item)


def _factory(op: Any) -> Any:
    if op is aten._efficientzerotensor.default:
        op = aten.zeros.default  # a zero without memory: a kernel that is handed it would read from nowhere

    @functools.wraps(op)
    def made(*args: Any, **kwargs: Any) -> Tensor:
        generator = kwargs.get("generator")
        if generator is not None and generator.device.type != NAME:
            raise RuntimeError(
                f"Expected a '{NAME}' device type for generator but found '{generator.device}'"
            )
        kwargs.pop("pin_memory", None)
        return SecondTensor(op(*args, **{**kwargs, "device": torch.device("cpu")}))

    return made


def _factories() -> Iterator[tuple[str, Any]]:
    """Operations that make a tensor from none, such as `zeros`: there is no argument whose class could decide."""
    for full in torch._C._dispatch_get_all_op_names():
        space, _, rest = full.partition("::")
        if space != "aten" or any(word in rest for word in _NOT_FACTORIES):
            continue
        name, _, overload = rest.partition(".")
        op = getattr(getattr(aten, name, None), overload or "default", None)
        if op is None:
            continue
        arguments = op._schema.arguments
        has_tensors = any("Tensor" in str(a.type) for a in arguments)
        if any(a.name == "device" for a in arguments) and not has_tensors:
            yield rest, op


class _Module:
    """What torch asks a device's module for; it is there only while a test says so."""

    is_there = False
    lacks_float64 = False  # as Apple's devices do

    def is_available(self) -> bool:
        return self.is_there

    def is_initialized(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def set_device(self, device: Any) -> None:
        pass

    def synchronize(self, device: Any = None) -> None:
        pass

    def manual_seed_all(self, seed: int) -> None:
        pass

    def _is_in_bad_fork(self) -> bool:
        return False

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.float16]


MODULE = _Module()
_library: list[Any] = []


def _copy_from(source: Tensor, target: Tensor, non_blocking: bool = False) -> Tensor:
    inside = source.inside if isinstance(source, SecondTensor) else source
    if isinstance(target, SecondTensor):
        target.inside.copy_(inside)
    else:
        target.copy_(inside)
    return target


def set_up() -> torch.device:
    """Register the device once in this process and return it."""
    if not _library:
        _setup_privateuseone_for_python_backend(NAME, backend_module=MODULE)
        library = torch.library.Library("aten", "IMPL")
        for name, op in _factories():
            library.impl(name, _factory(op), "PrivateUse1")
        library.impl("_copy_from", _copy_from, "PrivateUse1")
        library.impl("_to_copy", lambda tensor, **options: _moved(tensor, options), "PrivateUse1")
        _library.append(library)
    return torch.device(NAME)


class Where:
    """A task that says where it computes. A process that receives it gets the device too, as if it had a driver."""

    def __reduce__(self) -> tuple[Any, tuple[()]]:
        return _arrived, ()

    def __call__(self, task: Any) -> tuple[str, float]:
        device = chosen_device()
        return str(device), float(torch.ones(2, device=device).sum())


def _arrived() -> Where:
    set_up()
    MODULE.is_there = True
    return Where()
