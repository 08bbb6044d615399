"""GTSRB: German traffic signs."""

import csv
from pathlib import Path

import numpy as np

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import demand_regular, guarded
from firstlight.data.cache import Splits, StoredImages, stored_images
from firstlight.data.entries import DataSet, register_dataset
from firstlight.data.formats.folder import class_label, found_file, read_folder
from firstlight.data.formats.pictures import Decoding, pictures

SIDE = 32
CLASSES = (
    "limit 20", "limit 30", "limit 50", "limit 60", "limit 70", "limit 80", "end of limit 80", "limit 100",
    "limit 120", "no overtaking", "no overtaking by lorries", "right of way", "priority road", "give way",
    "stop", "no vehicles", "no lorries", "no entry", "danger", "bend left", "bend right", "double bend",
    "uneven road", "slippery road", "narrow on the right", "road works", "traffic lights", "pedestrians",
    "children", "bicycles", "snow", "wild animals", "end of limits", "turn right", "turn left", "straight on",
    "straight or right", "straight or left", "keep right", "keep left", "roundabout",
    "end of no overtaking", "end of no overtaking by lorries",
)  # fmt: skip


def read_gtsrb(folder: Path) -> Splits | None:
    """Read the numbered class folders and the table of test images, in the official or Kaggle's layout.

    The largest centred square of every picture is brought to 32 x 32.
    """
    first = next(iter(sorted(p for p in folder.rglob("00000") if p.is_dir())), None)
    table = found_file(folder, "GT-final_test.csv", "Test.csv")
    if first is None or table is None:
        return None
    train = read_folder(first.parent, classes=CLASSES, decoding=Decoding(size=SIDE))
    return {"train": train["train"], "test": _test(table, folder)} if train else None


def _test(table: Path, folder: Path) -> StoredImages:
    with guarded(table, "a table of images"), demand_regular(table).open(newline="") as file:
        header = file.readline()
        file.seek(0)
        rows = list(csv.DictReader(file, delimiter=";" if ";" in header else ","))
    column = "Filename" if rows and "Filename" in rows[0] else "Path"
    if not rows or column not in rows[0] or "ClassId" not in rows[0]:
        raise InvalidInput(f"{table} must have columns Filename (or Path) and ClassId.")
    if None in {row[name] for row in rows for name in (column, "ClassId")}:
        raise InvalidInput(f"{table} must give a file and a class in every row; one ends early.")
    images = {path.name: path for path in sorted(folder.rglob("*")) if path.suffix in (".ppm", ".png")}
    # the training folders use names with an underscore, so that bare names are unambiguous
    names = [Path(row[column]).name for row in rows]
    if missing := [name for name in names if name not in images]:
        raise InvalidInput(f"{table} lists {missing[0]}, which is not below {folder}.")
    x, _ = pictures([images[name] for name in names], label="reading test", decoding=Decoding(size=SIDE))
    y = np.array([class_label(row["ClassId"], CLASSES, table) for row in rows])
    return stored_images(x, y, CLASSES, order="n h w c")


@register_dataset
def gtsrb() -> DataSet:
    """Describe the traffic signs."""
    return DataSet(
        name="gtsrb",
        summary="51 839 traffic signs of 43 kinds, resized to 32 x 32",
        shape=(3, SIDE, SIDE),
        classes=CLASSES,
        counts={"train": 39_209, "test": 12_630},
        licence="CC0; Stallkamp and others, 2012.",
        where="your copy",
        formats=(
            "a folder with the class folders 00000, 00001, ... and GT-final_test.csv with its images, or "
            "train/ and test/ with such class folders"
        ),
        readers=(read_gtsrb,),
        resized=SIDE,
    )
