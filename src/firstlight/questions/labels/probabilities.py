"""Suspicious labels from class probabilities of one's own, by networks that did not train on the images."""

import math
import time
from pathlib import Path

import numpy as np
import torch
from jaxtyping import Float
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

TOLERANCE = 1e-2  # of the sum of a row: half precision and rounding to three digits pass


def check_probabilities(data: ImagesLike, probabilities: str | Path, *, top: int = 60) -> LabelCheck:
    """Find labels that look wrong by out-of-sample probabilities, such as those of a cross-validation.

    Parameters
    ----------
    data : ImagesLike
        The images with the labels to check.
    probabilities : str or Path
        A .npy file with one row for each image in the order of `data`, and one column for each of its classes. Each
        row must come from a network that was not trained on its image. Suspicion is the rank of the margin: the
        probability of the label less that of the likeliest other class.
    top : int, default 60
        Largest number of suspects.
    """
    start = time.perf_counter()
    images = labelled_images(data)
    demand_settings(top=top)
    rows = _read(Path(probabilities), images)
    own = rows.gather(1, images.y[:, None])[:, 0]
    others = rows.scatter(1, images.y[:, None], -1.0).max(1).values
    confidence, likely = rows.max(1)
    unknown = torch.full((len(images),), math.nan, dtype=torch.float64)
    return joined_check(
        images,
        top=top,
        likely=likely,
        suspicion=scaled_ranks(others - own),
        accessibility=unknown,
        confidence=own,
        likely_confidence=confidence,
        neighbours=unknown,
        accuracy=share_interval(int((likely == images.y).sum()), len(images)),
        planted=None,
        recipe=f"the probabilities {Path(probabilities).name}",
        seconds=time.perf_counter() - start,
    )


def _read(file: Path, data: ImageData) -> Float[Tensor, "n k"]:
    """Rows of the file, each a distribution over the classes."""
    wanted = (len(data), data.n_classes)
    with guarded(file, "probabilities in a .npy file"):
        # mapped first: the header of a small file may promise an array that fills the memory
        mapped = np.load(demand_regular(file), mmap_mode="r", allow_pickle=False)
        shape = getattr(mapped, "shape", None)
        if shape != wanted or mapped.dtype.kind != "f":
            found = "several arrays" if shape is None else f"{mapped.dtype} of shape {shape}"
            raise InvalidInput(
                f"{file} must hold floating-point numbers of shape {wanted}: a row for each image in the order of the "
                f"data, a column for each class ({', '.join(data.classes[:4])}{', ...' * (data.n_classes > 4)}). It "
                f"holds {found}."
            )
        rows = torch.from_numpy(np.array(mapped, dtype=np.float64))
    if not rows.isfinite().all() or rows.min() < 0 or (rows.sum(1) - 1).abs().max() > TOLERANCE:
        raise InvalidInput(f"{file} must hold probabilities: numbers from 0 to 1, each row with the sum 1.")
    return rows
