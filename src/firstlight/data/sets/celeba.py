"""CelebA: faces with forty yes/no attributes."""

from pathlib import Path

import numpy as np
import torch

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import demand_regular, guarded
from firstlight.data.cache import Splits, StoredImages
from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.formats.folder import found_file
from firstlight.data.formats.pictures import Decoding, pictures

SIDE = 32
DEFAULT = "Male"
CLASSES = (f"not {DEFAULT}", DEFAULT)
LAST_TRAIN, LAST_VALIDATION = 162_770, 182_637  # numbers of the last image of the official partition


def read_celeba(folder: Path) -> Splits | None:
    """Read the aligned images and list_attr_celeba.txt.

    The task is one attribute, "Male" unless ``load("celeba:Smiling")`` names another. Of every 178 x 218
    picture the centred square is averaged down to 32 x 32. The official partition goes by the number in
    the file name; its validation images are left out.
    """
    table = found_file(folder, "list_attr_celeba.txt")
    if table is None:
        return None
    names, rows = _attributes(table)
    images = {path.name: path for path in sorted(folder.rglob("*.jpg"))}
    present = sorted(name for name in rows if name in images)
    if not present:
        raise InvalidInput(f"None of the images that {table} lists is below {folder}.")
    parts = {"train": [], "test": []}  # type: dict[str, list[str]]
    for name in present:
        number = int(Path(name).stem)
        if number <= LAST_TRAIN or number > LAST_VALIDATION:
            parts["train" if number <= LAST_TRAIN else "test"].append(name)
    if empty := [split for split, members in parts.items() if not members]:
        raise InvalidInput(f"{folder} holds no image of the {empty[0]} part of CelebA.")
    return {
        split: _split([images[name] for name in members], names, np.stack([rows[name] for name in members]))
        for split, members in parts.items()
    }


def _split(paths: list[Path], names: tuple[str, ...], values: np.ndarray) -> StoredImages:
    pixels, _ = pictures(paths, label="reading faces", decoding=Decoding(size=SIDE))
    x = torch.from_numpy(np.ascontiguousarray(pixels.transpose(0, 3, 1, 2)))
    attributes = {name: torch.from_numpy(values[:, i].copy()) for i, name in enumerate(names)}
    return StoredImages(x, attributes[DEFAULT].long(), CLASSES, attributes)


def _attributes(table: Path) -> tuple[tuple[str, ...], dict[str, np.ndarray]]:
    """Read the count, the attribute names, then per line a file name and a 1 or -1 per attribute."""
    with guarded(table, "a table of attributes"):
        lines = demand_regular(table).read_text().splitlines()
    names = tuple(lines[1].split()) if len(lines) > 2 else ()
    rows = {}
    for line in lines[2:]:
        name, *values = line.split()
        if len(values) != len(names) or not set(values) <= {"1", "-1"} or not Path(name).stem.isdigit():
            raise InvalidInput(
                f"{table} is damaged: line {line[:40]!r} must give {len(names)} values 1 or -1."
            )
        rows[name] = np.array([value == "1" for value in values], dtype=np.uint8)
    if DEFAULT not in names:
        raise InvalidInput(f"{table} must name the attributes in its second line, {DEFAULT!r} among them.")
    return names, rows


@register_dataset
def celeba() -> DataSet:
    """Describe the faces."""
    return DataSet(
        name="celeba",
        summary="182 732 faces with forty attributes, centre-cropped and resized to 32 x 32",
        shape=(3, SIDE, SIDE),
        classes=CLASSES,
        counts={"train": LAST_TRAIN, "test": 19_962},
        licence="non-commercial research only; Liu and others, 2015.",
        where="your copy",
        formats="the folder img_align_celeba and list_attr_celeba.txt in one folder",
        readers=(read_celeba,),
    )
