"""Finding a file of a known name in a user's folder."""

from pathlib import Path


def found_file(folder: Path, *names: str) -> Path | None:
    """First of `names` that lies in `folder`, else anywhere below it; None if there is none."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    for name in names:
        if matches := sorted(path for path in folder.rglob(name) if path.is_file()):
            return matches[0]
    return None
