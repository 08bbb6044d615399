"""Packages that are imported when they are asked for, and named when they are missing."""

from importlib import import_module
from typing import Any

from firstlight._internal.errors import InvalidInput


def optional_module(name: str, *, extra: str, purpose: str) -> Any:
    """Import a module of an extra, or say which extra brings it.

    Parameters
    ----------
    name : str
        The module, such as "matplotlib.pyplot".
    extra : str
        What to install firstlight with.
    purpose : str
        What needs it, as the subject of the message.
    """
    try:
        return import_module(name)
    except ImportError as error:
        package = name.partition(".")[0]
        raise InvalidInput(
            f"{purpose} needs {package}, which cannot be imported here ({error}). "
            f"Run: pip install 'firstlight[{extra}]'"
        ) from error
