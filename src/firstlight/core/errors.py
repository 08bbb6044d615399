"""Errors that a user can act upon. Every message says what must hold, what came and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class FirstlightError(Exception):
    """Something outside our code is not as it must be; the command line prints it as one line."""


class InvalidInput(FirstlightError, ValueError):
    """An argument, a file or an array that has no meaning here."""


class DataUnavailable(FirstlightError):
    """A data set is neither cached nor obtainable; the message says what to put where."""


class StoreProblem(FirstlightError):
    """A run folder is damaged, or the place for results cannot be written."""


class Diverged(FirstlightError):
    """Training diverged: the loss is no longer finite."""


def unknown_name(kind: str, name: str, known: Iterable[str], *, hint: str = "") -> InvalidInput:
    """Build the error for a name that is not registered, with the nearest known one.

    Examples
    --------
    >>> str(unknown_name("data set", "cifar", ["cifar10", "mnist"]))
    "Unknown data set 'cifar'. Did you mean 'cifar10'? Known: cifar10, mnist."
    """
    options = sorted(known)
    near = get_close_matches(name, options, n=1, cutoff=0.5)
    guess = f" Did you mean {near[0]!r}?" if near else ""
    return InvalidInput(f"Unknown {kind} {name!r}.{guess} {hint or 'Known: ' + ', '.join(options) + '.'}")
