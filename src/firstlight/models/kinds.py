"""Which things are networks that can be measured."""

import importlib
import sys
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from firstlight._internal.errors import InvalidInput


def unwrapped(model: nn.Module) -> nn.Module:
    """The module inside ``torch.compile``, ``DataParallel`` and ``DistributedDataParallel``.

    Compiled code hides its layers from observers, and compiles anew for every batch size.
    """
    while True:
        inner = getattr(model, "_orig_mod", None)
        if inner is None and isinstance(model, nn.DataParallel | nn.parallel.DistributedDataParallel):
            inner = model.module
        if not isinstance(inner, nn.Module):
            return model
        model = inner


def as_network(model: Any) -> nn.Module:
    """The module to measure: without its wrappers, and refused if it has no layers to look at."""
    demand_network(model)
    return unwrapped(model)


def demand_network(model: Any) -> None:
    """Refuse what has no layers to look at: exported programs, TorchScript, and what is no module at all."""
    if isinstance(model, torch.jit.ScriptModule):
        raise InvalidInput(
            "the model must be an ordinary module; this one is TorchScript, which hides its layers. Build the Python "
            "class it was made from and load its `state_dict()`."
        )
    if isinstance(model, torch.export.ExportedProgram):
        raise InvalidInput(
            "the model must be an ordinary module; this one is an exported program. Pass its `module()` if it was "
            "exported for any number of images, or build the Python class it was made from and load its `state_dict`."
        )
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"the model must be a torch.nn.Module; got {type(model).__name__}.")


def model_from_code(factory: str | Callable[..., nn.Module], *arguments: object) -> nn.Module:
    """Build a model with code of the user's own.

    Parameters
    ----------
    factory : str or callable
        A function, or where it is: ``"package.module:function"``. The current folder is searched first, as for a
        script. A name of a model instead of a function is fine too.
    *arguments : object
        Of the function; usually it has none.
    """
    name = factory if isinstance(factory, str) else getattr(factory, "__name__", repr(factory))
    source = _imported(factory) if isinstance(factory, str) else factory
    try:
        model = source(*arguments) if callable(source) and not isinstance(source, nn.Module) else source
    except (Exception, SystemExit) as error:
        if not isinstance(factory, str):  # called from Python, where the traceback is the user's own
            raise
        raise InvalidInput(f"{name} failed: {_in_words(error)}.") from error
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"{name} must return a torch.nn.Module; it returned {type(model).__name__}.")
    return model


class CalledModel(nn.Module):
    """A model that is called through a function: for inputs that are not one tensor of images.

    Parameters
    ----------
    model : torch.nn.Module
        Its layers keep their names, behind ``model.``.
    function : callable
        Called with the model and a batch of images; returns what the model returns.
    """

    def __init__(self, model: nn.Module, function: Callable[[nn.Module, Tensor], Any]) -> None:
        super().__init__()
        self.model, self.function = model, function

    def forward(self, images: Tensor) -> Any:
        """Call the model as its user would."""
        return self.function(self.model, images)


def called_by(model: nn.Module, call: str | Callable[[nn.Module, Tensor], Any]) -> nn.Module:
    """Wrap a model that does not take images as one tensor.

    Parameters
    ----------
    model : torch.nn.Module
        Any model.
    call : str or callable
        A function of the model and a batch of images, or where it is: ``"package.module:function"``.

    Examples
    --------
    >>> import torch
    >>> class Named(nn.Module):
    ...     def forward(self, batch):
    ...         return batch["pixels"].mean((1, 2, 3))
    >>> called_by(Named(), lambda model, x: model({"pixels": x}))(torch.ones(2, 3, 4, 4))
    tensor([1., 1.])
    """
    function = _imported(call) if isinstance(call, str) else call
    if not callable(function):
        raise InvalidInput(f"`call` must be a function of the model and the images; {call} is none.")
    return CalledModel(model, function)


def _imported(reference: str) -> object:
    module, colon, name = reference.partition(":")
    if not colon or not name or not module:
        raise InvalidInput(f"Code of yours must be named as module:function; got {reference!r}.")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        imported: object = getattr(importlib.import_module(module), name)
    except (Exception, SystemExit) as error:  # whatever the user's code does while it is imported
        raise InvalidInput(f"{reference} cannot be imported: {_in_words(error)}.") from error
    finally:
        sys.path.remove(here)
    return imported


def _in_words(error: BaseException) -> str:
    """Kind and first line of an error, and the line of the user's code that raised it."""
    where = traceback.extract_tb(error.__traceback__)[-1:]
    place = f" ({Path(where[0].filename).name}, line {where[0].lineno})" if where else ""
    first = str(error).splitlines()[:1]
    return f"{type(error).__name__}{': ' + first[0].rstrip('.') if first else ''}{place}"
