"""Models that the user's own code builds."""

import importlib
import sys
from collections.abc import Callable
from pathlib import Path

from torch import nn

from firstlight.core.errors import InvalidInput


def model_from_code(factory: str | Callable[[], nn.Module]) -> nn.Module:
    """Build a model with code of the user's own.

    Parameters
    ----------
    factory : str or callable
        A function without arguments, or where it is: ``"package.module:function"``. The current folder is
        searched first, as for a script. A name of a model instead of a function is fine too.
    """
    name = factory if isinstance(factory, str) else getattr(factory, "__name__", repr(factory))
    source = _imported(factory) if isinstance(factory, str) else factory
    model = source() if callable(source) and not isinstance(source, nn.Module) else source
    if not isinstance(model, nn.Module):
        raise InvalidInput(f"{name} must return a torch.nn.Module; it returned {type(model).__name__}.")
    return model


def _imported(reference: str) -> object:
    module, colon, name = reference.partition(":")
    if not colon or not name or not module:
        raise InvalidInput(f"Code that builds a model must be named as module:function; got {reference!r}.")
    here = str(Path.cwd())
    sys.path.insert(0, here)
    try:
        imported: object = getattr(importlib.import_module(module), name)
    except (ImportError, AttributeError, SyntaxError) as error:
        raise InvalidInput(f"{reference} cannot be imported: {error}.") from error
    finally:
        sys.path.remove(here)
    return imported
