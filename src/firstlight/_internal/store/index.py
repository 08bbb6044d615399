"""The runs of a folder, described by their `run.json` alone: arrays are neither read nor compared, nor is torch."""

import os
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight._internal.errors import FirstlightError
from firstlight._internal.files import seal_of
from firstlight._internal.untrusted_files import demand_regular, guarded, read_json

RUN, ARRAYS = "run.json", "arrays.safetensors"


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
        Whether the folder could not be read. A change of the arrays is noticed when the run is loaded.
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
    """Describe all runs, newest first."""
    return [_listed(root / id) for id in run_ids(root)]


def _listed(folder: Path) -> Listed:
    try:
        body = read_body(folder)
        demand_regular(folder / ARRAYS)
        with guarded(folder / RUN, "a run"):
            return Listed(
                id=folder.name,
                what=str(body["what"]),
                finished=str(body["finished"]),
                commit=str(body["commit"]),
                cpu_seconds=float(body["cpu_seconds"]),
            )
    except FirstlightError:
        return Listed(id=folder.name, is_damaged=True)


def read_body(folder: Path) -> dict[str, Any]:
    """What `run.json` says, once its checksum and the name of the folder agree with it."""
    body: dict[str, Any] = read_json(folder / RUN)
    with guarded(folder / RUN, "a run"):
        sealed = body.pop("sha256")
        if seal_of(body) != sealed:
            raise ValueError(f"{RUN} was changed after it was written")
        if body["id"] != folder.name:
            raise ValueError(f"it is run {body['id']} under another name")
    return body
