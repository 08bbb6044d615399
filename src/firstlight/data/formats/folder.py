"""Folders of class folders, the form in which people keep their own images."""

import dataclasses
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Int64
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.data.cache import Splits, StoredImages, stored_images
from firstlight.data.formats.pictures import AS_THEY_ARE, SUFFIXES, Decoding, any_colour, pictures
from firstlight.data.images import members_of

_NAMES = {"train": ("train", "training"), "test": ("test", "testing", "val", "valid", "validation")}


@dataclass(frozen=True, eq=False)
class PictureFiles:
    """One split of a folder, before any picture is decoded: images are chosen first and decoded after.

    Parameters
    ----------
    paths : tuple of Path
        The files.
    y : int64 Tensor of shape (n,)
        Class index of every file.
    classes : tuple of str
        One name per class index.
    decoding : Decoding
        How the files become arrays.
    names : tuple of str
        Names of the files for the user: their paths, also within an archive.
    is_labelled : bool, default True
        False for a folder of images without class folders.
    """

    paths: tuple[Path, ...]
    y: Int64[Tensor, " n"]
    classes: tuple[str, ...]
    decoding: Decoding
    names: tuple[str, ...]
    is_labelled: bool = True

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, index: Tensor) -> "PictureFiles":
        """The files at `index`, in that order."""
        places = index.tolist()
        return dataclasses.replace(
            self,
            paths=tuple(self.paths[i] for i in places),
            names=tuple(self.names[i] for i in places),
            y=self.y[index],
        )

    def only(self, names: tuple[str, ...]) -> "PictureFiles":
        """Keep the named classes, renumbered in the order given."""
        keep, y = members_of(self.y, self.classes, names)
        return dataclasses.replace(self.take(keep), y=y, classes=names)

    def decoded(self) -> StoredImages:
        """Read the pictures."""
        x, kept = pictures(self.paths, label="reading pictures", decoding=self.decoding)
        stored = stored_images(x, self.y[kept].numpy(), self.classes, order="n h w c")
        return dataclasses.replace(
            stored, files=tuple(self.names[i] for i in kept), is_labelled=self.is_labelled
        )


def list_folder(
    folder: Path, *, classes: tuple[str, ...] = (), decoding: Decoding = AS_THEY_ARE
) -> dict[str, PictureFiles] | None:
    """List ``folder/train/CLASS/*`` and ``folder/test/CLASS/*``, or ``folder/CLASS/*`` as the train split.

    Parameters
    ----------
    folder : Path
        Returns None if it holds no images. Images that lie in it directly have no labels.
    classes : tuple of str, default ()
        The names that must appear, or, with numbers as folder names, the names in that order; by default
        the sorted names of the folders.
    decoding : Decoding
        How the pictures will be decoded. They become coloured if any of them is, in any split.
    """
    if not folder.is_dir():
        return None
    parts = {split: _part(folder, names) for split, names in _NAMES.items()}
    if parts["train"] is not None:
        places = {split: part for split, part in parts.items() if part}
    elif _holds_classes(folder):
        places = {"train": folder}
    else:
        return _unlabelled(folder, decoding) if not classes else None
    classes = classes or tuple(child.name for child in _class_folders(places["train"]))
    listed = {split: _labelled(place, classes) for split, place in places.items()}
    everything = [path for paths, _ in listed.values() for path in paths]
    decoding = _with_channels(decoding, everything)
    return {
        split: PictureFiles(tuple(paths), torch.tensor(y), classes, decoding, tuple(map(str, paths)))
        for split, (paths, y) in listed.items()
    }


def read_folder(
    folder: Path, *, classes: tuple[str, ...] = (), decoding: Decoding = AS_THEY_ARE
) -> Splits | None:
    """Decode everything that :func:`list_folder` lists."""
    listed = list_folder(folder, classes=classes, decoding=decoding)
    return None if listed is None else {split: part.decoded() for split, part in listed.items()}


def class_label(name: str, classes: tuple[str, ...], where: Path) -> int:
    """Label of a class folder by its name, or by its number if it is called ``00007``."""
    if name in classes:
        return classes.index(name)
    if name.isdigit() and int(name) < len(classes):
        return int(name)
    raise InvalidInput(f"{where} holds a class {name!r} that is not among {', '.join(classes[:12])} ...")


def _unlabelled(folder: Path, decoding: Decoding) -> dict[str, PictureFiles] | None:
    paths = _images(folder)
    if not paths:
        return None
    names = tuple(map(str, paths))
    y = torch.zeros(len(paths), dtype=torch.int64)
    decoding = _with_channels(decoding, paths)
    return {"train": PictureFiles(tuple(paths), y, ("unlabelled",), decoding, names, is_labelled=False)}


def _labelled(place: Path, classes: tuple[str, ...]) -> tuple[list[Path], list[int]]:
    paths: list[Path] = []
    labels: list[int] = []
    for folder in _class_folders(place):
        members = _images(folder)
        if not members:
            raise InvalidInput(f"The class folder {folder} holds no image. Add some or remove the folder.")
        paths += members
        labels += [class_label(folder.name, classes, place)] * len(members)
    return paths, labels


def _with_channels(decoding: Decoding, paths: list[Path]) -> Decoding:
    if decoding.channels is not None or not any_colour(paths):
        return decoding
    return dataclasses.replace(decoding, channels=3)


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


def found_file(folder: Path, *names: str) -> Path | None:
    """First of `names` that lies in `folder`, else anywhere below it; None if there is none."""
    for name in names:
        if (folder / name).is_file():
            return folder / name
    for name in names:
        if matches := sorted(path for path in folder.rglob(name) if path.is_file()):
            return matches[0]
    return None
