"""A CSV of files and labels: the form in which annotators hand over their work."""

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import demand_regular, guarded
from firstlight.data.conversion import as_images
from firstlight.data.images import ImageData

_FILE_NAMES = ("file", "filename", "file_name", "path", "image")
_LABEL_NAMES = ("label", "class", "target")


def load_label_table(path: str | Path, **options: Any) -> ImageData:
    """Read the images that a CSV names, with the labels it gives them.

    Parameters
    ----------
    path : str or Path
        A CSV with a header that names a column ``file`` (or ``filename``, ``path``, ``image``) and a column
        ``label`` (or ``class``, ``target``); others are ignored. Relative files start from its folder.
    **options
        `n`, `seed`, `size`, `crop`, `channels` and `skip_broken` of :func:`firstlight.data.as_images`.

    Returns
    -------
    ImageData
        Classes in alphabetical order; the files as they are written in the table.
    """
    table = Path(path).expanduser()
    names, labels = files_and_labels(table)
    files = [table.parent / Path(name).expanduser() for name in names]
    place: dict[str, int] = {}
    for row, file in enumerate(files):
        if not file.is_file():
            raise InvalidInput(f"{table}, row {row + 1}: there is no file {file}.")
        if (earlier := place.setdefault(str(file), row)) != row:
            raise InvalidInput(
                f"{table}, row {row + 1}: {names[row]} is listed already in row {earlier + 1}. Keep one label."
            )
    images = as_images(files, labels, **options)
    positions = [place[file] for file in images.files]
    return images.replace(
        files=tuple(names[position] for position in positions),
        positions=torch.tensor(positions),
        meta={"name": table.name},
    )


def columns_of(header: Sequence[str]) -> tuple[int, int]:
    """Places of the files and of the labels among the columns, -1 for what is not there.

    Examples
    --------
    >>> columns_of(["Path", "width", "class"])
    (0, 2)
    """
    names = [name.strip().lower() for name in header]
    places = (
        next((names.index(name) for name in wanted if name in names), -1)
        for wanted in (_FILE_NAMES, _LABEL_NAMES)
    )
    return next(places), next(places)


def files_and_labels(table: Path) -> tuple[list[str], list[str]]:
    """Files and labels of a table, every row complete."""
    with guarded(table, "a CSV of files and labels"):
        with demand_regular(table).open(newline="", encoding="utf-8-sig") as opened:
            rows = list(csv.reader(opened, strict=True))
        file, label = columns_of(rows[0] if rows else [])
        if file < 0 or label < 0:
            raise InvalidInput(
                f"{table} must begin with a header that names the columns file and label; it begins with "
                f"{','.join(rows[0])[:80] if rows else 'nothing'!r}."
            )
        names, labels = [], []
        for number, row in enumerate(filter(None, rows[1:]), 1):
            if len(row) <= max(file, label) or not row[file].strip() or not row[label].strip():
                raise InvalidInput(
                    f"{table}, row {number}: a row must hold a file and a label; got {','.join(row)[:80]!r}."
                )
            names.append(row[file].strip())
            labels.append(row[label].strip())
        if not names:
            raise InvalidInput(f"{table} must hold at least one row below its header; it holds none.")
        return names, labels
