"""A list of all runs that need not open their folders: rebuilt from them, and never believed against them.

Each line describes a run as it was when it was last read and found intact. It counts only as long as the folder and its
files are the same ones, of the same size and age. Whatever differs is read again; whatever is gone is left out.
"""

import hashlib
import json
import os
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight._internal.errors import FirstlightError, StoreProblem
from firstlight._internal.files import locked, whole_file
from firstlight._internal.untrusted_files import is_regular

RUN, ARRAYS = "run.json", "arrays.safetensors"
INDEX, LOCK = ".index", ".index.lock"


@dataclass(frozen=True, kw_only=True)
class Listed:
    """What a list of runs tells about one of them.

    Parameters
    ----------
    id : str
        Name of the run folder.
    what, finished, commit : str
        As in the run; empty if it is damaged.
    cpu_seconds : float
        As in the run.
    is_damaged : bool, default False
        Whether the folder could not be read.
    """

    id: str
    what: str = ""
    finished: str = ""
    cpu_seconds: float = 0.0
    commit: str = ""
    is_damaged: bool = False


def run_ids(root: Path) -> list[str]:
    """Names of all run folders, newest first, damaged ones included."""
    if not root.is_dir():
        return []
    ages: dict[str, float] = {}
    with os.scandir(root) as entries:
        for entry in entries:
            if re.fullmatch(r"[0-9a-f]{16}", entry.name):
                with suppress(FileNotFoundError):  # just removed
                    ages[entry.name] = entry.stat(follow_symlinks=False).st_mtime
    return sorted(ages, key=lambda id: ages[id], reverse=True)


def listed_runs(root: Path) -> list[Listed]:
    """Describe all runs, newest first; only those that are new or were touched are read."""
    known = _read(root)
    runs: list[Listed] = []
    states: dict[str, str] = {}
    for id in run_ids(root):
        state = _state(root, id)
        row = known.get(id)
        run = row[1] if row is not None and row[0] == state else _examined(root, id)
        runs.append(run)
        if state is not None and not run.is_damaged:
            states[id] = state
    if {id: row[0] for id, row in known.items()} != states:
        _write(root, ((states[run.id], run) for run in runs if run.id in states))
    return runs


def note_run(root: Path, run: Listed) -> None:
    """Add a run that was just written. A list that cannot be written is no reason to fail: it is made anew."""
    state = _state(root, run.id)
    if state is None:
        return
    with suppress(OSError, StoreProblem), locked(root / LOCK):
        path = root / INDEX
        if path.exists() and not is_regular(path):
            return
        with path.open("ab") as file:
            file.write(b"\n" + _line(state, run))  # the line before may have been cut off by a kill


def _examined(root: Path, id: str) -> Listed:
    from firstlight._internal.store.runs import Store  # imported when needed: with torch, a second

    try:
        run = Store(root).load(id)
    except FirstlightError:
        return Listed(id=id, is_damaged=True)
    return Listed(
        id=id,
        what=run.spec.what,
        finished=run.finished,
        cpu_seconds=run.cpu_seconds,
        commit=run.commit,
    )


def _state(root: Path, id: str) -> str | None:
    """Name what the file system has there now, down to the last change; None if it is no run folder."""
    folder = f"{root}/{id}"
    try:
        seen = [os.lstat(path) for path in (folder, f"{folder}/{RUN}", f"{folder}/{ARRAYS}")]
    except OSError:
        return None
    numbers = [(one.st_mode, one.st_ino, one.st_size, one.st_mtime_ns, one.st_ctime_ns) for one in seen]
    return hashlib.blake2b(repr(numbers).encode(), digest_size=12).hexdigest()


# ---------------------------------------------------------------- the file


def _read(root: Path) -> dict[str, tuple[str, Listed]]:
    """State and description by name; later lines replace earlier ones, and damaged lines are left out."""
    path = root / INDEX
    if not is_regular(path):
        return {}
    rows: dict[str, tuple[str, Listed]] = {}
    with suppress(OSError):
        for line in path.read_bytes().splitlines():
            if line and (row := _row(line)) is not None:
                rows[row[1].id] = row
    return rows


def _line(state: str, run: Listed) -> bytes:
    body: list[Any] = [state, run.id, run.what, run.finished, run.cpu_seconds, run.commit]
    text = json.dumps(body).encode()
    return b"%08x %s\n" % (zlib.crc32(text), text)


def _row(line: bytes) -> tuple[str, Listed] | None:
    checksum, _, text = line.partition(b" ")
    if checksum != b"%08x" % zlib.crc32(text):
        return None
    with suppress(ValueError, TypeError):
        state, id, what, finished, cpu_seconds, commit = json.loads(text)
        return state, Listed(id=id, what=what, finished=finished, cpu_seconds=cpu_seconds, commit=commit)
    return None


def _write(root: Path, rows: Iterable[tuple[str, Listed]]) -> None:
    with suppress(OSError, StoreProblem), locked(root / LOCK), whole_file(root / INDEX) as part:
        part.write_bytes(b"".join(_line(state, run) for state, run in rows))
