"""Suspicious labels from the record of a training of one's own."""

import csv
import math
import time
from pathlib import Path

import torch
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.untrusted_files import demand_regular, guarded
from firstlight.data.conversion import ImagesLike
from firstlight.data.images import ImageData
from firstlight.maths.correlation import share_interval
from firstlight.questions.labels.result import (
    LabelCheck,
    demand_settings,
    joined_check,
    labelled_images,
    scaled_ranks,
)


def check_record(data: ImagesLike, record: str | Path, *, top: int = 60) -> LabelCheck:
    """Find labels that look wrong by the record of a training of one's own.

    Parameters
    ----------
    data : ImagesLike
        The images that were followed, in the same order, with the labels that were trained on.
    record : str or Path
        What :meth:`AccessibilityRecorder.write_csv` wrote. Suspicion is the mean rank of lateness and of the
        mean margin, if it was kept.
    top : int, default 60
        Largest number of suspects.
    """
    start = time.perf_counter()
    images = labelled_images(data)
    demand_settings(top=top)
    columns = _read_record(Path(record), images)
    accessibility = columns["accessibility"]
    signals = [-accessibility, *([-columns["margin"]] if "margin" in columns else [])]
    unknown = torch.full((len(images),), math.nan, dtype=torch.float64)
    mean = float(accessibility.mean())
    return joined_check(
        images,
        top=top,
        likely=torch.full((len(images),), -1),
        suspicion=torch.stack([scaled_ranks(signal) for signal in signals]).mean(0),
        accessibility=accessibility,
        confidence=unknown,
        likely_confidence=unknown,
        neighbours=unknown,
        # over epochs: of images, only their number counts as independent
        accuracy=share_interval(round(mean * len(images)), len(images)),
        planted=None,
        recipe=f"the record {Path(record).name}",
        seconds=time.perf_counter() - start,
    )


def _read_record(record: Path, data: ImageData) -> dict[str, Tensor]:
    with guarded(record, "the CSV of a recorder"):
        with demand_regular(record).open(newline="", encoding="utf-8-sig") as opened:
            rows = list(csv.DictReader(opened, strict=True))
        if not rows or not {"label", "accessibility"} <= set(rows[0]):
            raise InvalidInput(
                f"{record} must have the columns label and accessibility, as `AccessibilityRecorder.write_csv` "
                f"writes them; it has {', '.join(map(str, rows[0])) if rows else 'no rows'}."
            )
        names = [name for name in ("label", "accessibility", "margin") if name in rows[0]]
        columns = {name: torch.tensor([float(row[name]) for row in rows]).double() for name in names}
    if len(rows) != len(data) or not torch.equal(columns["label"].long(), data.y):
        raise InvalidInput(
            f"{record} must follow the {len(data)} images of `data` in the same order with the same labels; it has "
            f"{len(rows)} rows, or other labels."
        )
    if any(not values.isfinite().all() for values in columns.values()):
        raise InvalidInput(f"{record} holds images without a record (NaN). Record every image at least once.")
    return columns
