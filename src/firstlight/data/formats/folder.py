"""Folders of class folders, the form in which people keep their own images."""

from pathlib import Path

import numpy as np

from firstlight.core.errors import InvalidInput
from firstlight.data.formats.pictures import SUFFIXES, pictures
from firstlight.data.stored import Splits, StoredImages, stored_images

_NAMES = {"train": ("train", "training"), "test": ("test", "testing", "val", "valid", "validation")}


def read_folder(folder: Path, *, classes: tuple[str, ...] = (), side: int | None = None) -> Splits | None:
    """Read ``folder/train/CLASS/*`` and ``folder/test/CLASS/*``, or ``folder/CLASS/*`` as the train split.

    Parameters
    ----------
    folder : Path
        Returns None if it holds no class folders with images.
    classes : tuple of str, default ()
        The names that must appear, or, with numbers as folder names, the names in that order; by default
        the sorted names of the folders.
    side : int, optional
        Crop and resize to this side; by default all images must have one size.
    """
    if not folder.is_dir():
        return None
    parts = {split: _part(folder, names) for split, names in _NAMES.items()}
    if parts["train"] is None:
        splits = _read({"train": folder}, classes, side) if _holds_classes(folder) else None
    else:
        splits = _read({split: part for split, part in parts.items() if part}, classes, side)
    return splits


def class_label(name: str, classes: tuple[str, ...], where: Path) -> int:
    """Label of a class folder by its name, or by its number if it is called ``00007``."""
    if name in classes:
        return classes.index(name)
    if name.isdigit() and int(name) < len(classes):
        return int(name)
    raise InvalidInput(f"{where} holds a class {name!r} that is not among {', '.join(classes[:12])} ...")


def _read(parts: dict[str, Path], classes: tuple[str, ...], side: int | None) -> Splits:
    classes = classes or tuple(folder.name for folder in _class_folders(parts["train"]))
    splits = {split: _split(part, classes, side) for split, part in parts.items()}
    shapes = {tuple(images.x.shape[1:]) for images in splits.values()}
    if len(shapes) > 1:
        raise InvalidInput(f"train and test images must have one size; got {sorted(shapes)} (c h w).")
    return splits


def _split(part: Path, classes: tuple[str, ...], side: int | None) -> StoredImages:
    paths: list[Path] = []
    labels: list[int] = []
    for folder in _class_folders(part):
        found = _images(folder)
        if not found:
            raise InvalidInput(f"The class folder {folder} holds no image. Add some or remove the folder.")
        paths += found
        labels += [class_label(folder.name, classes, part)] * len(found)
    x = pictures(paths, label=f"reading {part.name}", side=side)
    return stored_images(x, np.array(labels), classes, order="n h w c")


def _part(folder: Path, names: tuple[str, ...]) -> Path | None:
    for child in _class_folders(folder):
        if child.name.lower() in names and _holds_classes(child):
            return child
    return None


def _holds_classes(folder: Path) -> bool:
    return any(_images(child) for child in _class_folders(folder))


def _class_folders(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.is_dir() and not p.name.startswith((".", "__")))


def _images(folder: Path) -> list[Path]:
    return sorted(p for p in folder.iterdir() if p.suffix.lower() in SUFFIXES and not p.name.startswith("."))
