"""Errors that a user can act on. Every message says what must hold, what was given and what to do."""

from collections.abc import Iterable
from difflib import get_close_matches


class FirstlightError(Exception):
    """A problem that the user can solve; the command line prints it as one line."""


class InvalidInput(FirstlightError, ValueError):
    """An argument, a file or an array that cannot be used."""


class DataUnavailable(FirstlightError):
    """A data set is neither in the cache nor can it be fetched; the message says what to put where."""


class StoreProblem(FirstlightError):
    """A run folder is damaged, or a result cannot be written."""


class ClusterProblem(FirstlightError):
    """A cluster stopped answering, or one of its workers cannot be used."""


class WorkerLost(FirstlightError):
    """A worker process ended before its task: the system was out of memory, a library crashed, somebody killed it."""


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


# torch, oneDNN and Python raise plain RuntimeErrors
_NO_MEMORY = (
    "allocate memory", "out of memory", "could not create a primitive", "could not create a memory",
    "can't start new thread",
)  # fmt: skip


def lacks_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out.

    Examples
    --------
    >>> lacks_memory(MemoryError()), lacks_memory(RuntimeError("sizes differ"))
    (True, False)
    """
    return isinstance(error, MemoryError) or any(words in str(error) for words in _NO_MEMORY)
