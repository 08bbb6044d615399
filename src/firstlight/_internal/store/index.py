"""The runs of a folder, described by their `run.json` alone: arrays are neither read nor compared, nor is torch."""

from contextlib import suppress
from pathlib import Path
from typing import Any

from firstlight._internal.errors import FirstlightError
from firstlight._internal.files import seal_of
from firstlight._internal.untrusted_files import demand_regular, guarded, read_json

RUN, ARRAYS = "run.json", "arrays.safetensors"


COLUMNS = ("id", "what", "finished", "cpu s", "commit")


def run_ids(root: Path) -> list[str]:
    """Names of all run folders, newest first, damaged ones included."""
    ages: dict[str, float] = {}
    for folder in root.glob("[0-9a-f]" * 16):
        with suppress(FileNotFoundError):  # just removed
            ages[folder.name] = folder.lstat().st_mtime
    return sorted(ages, key=lambda id: ages[id], reverse=True)


def listed_runs(root: Path) -> list[tuple[str, ...]]:
    """Rows of :data:`COLUMNS`, newest first; a change of the arrays is noticed when the run is loaded."""
    return [_listed(root / id) for id in run_ids(root)]


def _listed(folder: Path) -> tuple[str, ...]:
    try:
        body = read_body(folder)
        demand_regular(folder / ARRAYS)
        with guarded(folder / RUN, "a run"):
            cost = f"{float(body['cpu_seconds']):.1f}"
            return (folder.name, str(body["what"]), str(body["finished"]), cost, str(body["commit"]))
    except FirstlightError:  # one bad entry does not hide the others
        return (folder.name, "damaged", "", "", "")


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
