"""What a task on a worker of a cluster knows of its client, and what it owes to it."""

import hashlib
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

from firstlight._internal.environment import environment, user_folder
from firstlight._internal.files import whole_folder
from firstlight._internal.untrusted_files import is_regular

DECIDING = ("firstlight", "code", "torch", "python")
"""Facts in which a worker must equal the client; differences in others are only reported."""


class StoredByClient(BaseException):
    """The run that a task is about to compute is stored on the client's machine."""


@dataclass(frozen=True)
class RunFiles:
    """A finished run folder as bytes, on its way to the client's machine.

    Parameters
    ----------
    id : str
        Name of the run.
    files : dict of str to bytes
        Content of the folder by file name.
    """

    id: str
    files: dict[str, bytes]

    def write(self) -> None:
        """Write the folder among the runs of this machine, unless it is there."""
        folder = runs_folder() / self.id
        if not folder.exists():
            with whole_folder(folder) as part:
                for name, content in self.files.items():
                    (part / name).write_bytes(content)


@dataclass
class Assignment:
    """What the task in this process knows of the client, and what it will bring back.

    Parameters
    ----------
    stored : frozenset of str
        Names of the runs on the client's machine.
    runs : list of RunFiles
        Runs that the client does not have yet.
    """

    stored: frozenset[str]
    runs: list[RunFiles] = field(default_factory=list)


_assignment: Assignment | None = None


@contextmanager
def assigned(stored: frozenset[str]) -> Iterator[Assignment]:
    """Work for a client on another machine inside the block."""
    global _assignment
    _assignment = Assignment(stored)
    try:
        yield _assignment
    finally:
        _assignment = None


def is_worker() -> bool:
    """Whether this process is running a task of a client on a cluster."""
    return _assignment is not None


def may_fetch() -> bool:
    """Whether this process may fetch from the network; a worker of a cluster only if it was started so."""
    return not is_worker() or os.environ.get("FIRSTLIGHT_WORKERS_FETCH") == "yes"


def runs_folder() -> Path:
    """Where this machine keeps its runs."""
    return user_folder("FIRSTLIGHT_RUNS", leaf="runs")


def stored_runs() -> frozenset[str]:
    """Names of the runs on this machine."""
    folder = runs_folder()
    return frozenset(entry.name for entry in folder.iterdir()) if folder.is_dir() else frozenset()


def leave_to_client(id: str) -> None:
    """Stop the present task if the client has this run; do nothing outside a cluster."""
    if _assignment is not None and id in _assignment.stored:
        raise StoredByClient(id)


def hand_over(folder: Path) -> None:
    """Send a finished run folder home with the outcome of the present task; do nothing outside a cluster."""
    if _assignment is None or folder.parent != runs_folder() or folder.name in _assignment.stored:
        return
    files = {file.name: file.read_bytes() for file in sorted(folder.iterdir()) if is_regular(file)}
    _assignment.runs.append(RunFiles(folder.name, files))


@cache
def facts() -> dict[str, str]:
    """What decides the numbers that this process computes."""
    here = {
        name: str(value) for name, value in environment().items() if name not in ("cores", "system", "device")
    }
    here["python"] = ".".join(here["python"].split(".")[:2])  # pickled functions need the same minor version
    return {**here, "code": _code()}


def difference(theirs: Mapping[str, str], ours: Mapping[str, str]) -> str:
    """In which of the deciding facts a worker differs from the client, in words; empty if in none.

    Examples
    --------
    >>> difference({**facts(), "torch": "2.6.0"}, {**facts(), "torch": "2.13.0"})
    'torch 2.6.0 instead of 2.13.0'
    """
    words = {"code": "source code", "python": "Python"}
    return ", ".join(
        f"{words.get(name, name)} {theirs.get(name, 'unknown')} instead of {ours[name]}"
        for name in DECIDING
        if theirs.get(name) != ours[name]
    )


@cache
def _code() -> str:
    """Eight hexadecimal digits for the source of the whole package, whatever version it calls itself."""
    root = Path(__file__).parents[2]
    digest = hashlib.sha256()
    for file in sorted(root.rglob("*.py"), key=lambda path: path.relative_to(root).as_posix()):
        digest.update(f"{file.relative_to(root).as_posix()}\n".encode())
        digest.update(file.read_bytes().replace(b"\r\n", b"\n"))
    return digest.hexdigest()[:8]
