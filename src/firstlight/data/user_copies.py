"""A user's own copy of a data set: class folders, npz, an archive, or the data set's standard files."""

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TypeAlias

from firstlight._internal.errors import InvalidInput
from firstlight.data.cache import StoredImages
from firstlight.data.entries import DataSet
from firstlight.data.fetching.archives import unpacked
from firstlight.data.formats.folder import PictureFiles, list_folder
from firstlight.data.formats.npz import read_npz
from firstlight.data.formats.pictures import AS_THEY_ARE, Decoding

Part: TypeAlias = StoredImages | PictureFiles
"""One split; pictures of a folder are not yet decoded."""


@contextmanager
def opened_copy(
    entry: DataSet, source: Path, decoding: Decoding = AS_THEY_ARE
) -> Iterator[Mapping[str, Part]]:
    """Yield the splits of a user's copy, read by the first reader that knows its format.

    Pictures can be decoded within the block only: an archive is unpacked into a folder that then goes.
    """
    demand_existing(source)
    with unpacked(source) as place:
        parts = _parts(entry, place, decoding)
        if parts is None:
            raise InvalidInput(f"{source} does not hold {entry.name}. It must hold {entry.formats}.")
        if place != source:
            parts = {split: _named_in_archive(part, place, source) for split, part in parts.items()}
        yield parts


def demand_existing(source: Path) -> None:
    """Refuse a path at which there is nothing."""
    if not source.exists():
        raise InvalidInput(f"`source` must exist; {source} does not.")


def _parts(entry: DataSet, place: Path, decoding: Decoding) -> Mapping[str, Part] | None:
    if place.suffix == ".npz":
        return read_npz(place, classes=entry.classes)
    folder = place if place.is_dir() else place.parent
    for reader in entry.readers:
        if splits := reader(folder):
            return splits
    if place.is_dir():
        if entry.resized is not None:
            decoding = dataclasses.replace(decoding, size=entry.resized)
        for candidate in (folder, *_only_child(folder)):
            if parts := list_folder(candidate, classes=entry.classes, decoding=decoding):
                return parts
    return None


def _named_in_archive(part: Part, place: Path, source: Path) -> Part:
    if not isinstance(part, PictureFiles):
        return part
    return dataclasses.replace(
        part, names=tuple(f"{source}/{path.relative_to(place)}" for path in part.paths)
    )


def _only_child(folder: Path) -> list[Path]:
    """The folder that most archives wrap around their contents."""
    children = [path for path in folder.iterdir() if path.is_dir() and not path.name.startswith("__")]
    return children if len(children) == 1 else []
