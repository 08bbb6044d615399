"""Suspicious labels from class probabilities of one's own, by networks that did not train on the images."""

import math
import time
from pathlib import Path
from typing import Any

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


def check_probabilities(
    data: ImagesLike, probabilities: str | Path | np.ndarray, *, top: int = 60
) -> LabelCheck:
    """Find labels that look wrong by out-of-sample probabilities, such as those of a cross-validation.

    Parameters
    ----------
    data : ImagesLike
        The images with the labels to check.
    probabilities : str, Path or array
        A .npy file or an array, such as cleanlab's `pred_probs`, with one row for each image in the order of `data`,
        and one column for each of its classes. Each row must come from a network that was not trained on its image.
        Suspicion is the rank of the margin: the probability of the label less that of the likeliest other class.
    top : int, default 60
        Largest number of suspects.
    """
    start = time.perf_counter()
    images = labelled_images(data)
    demand_settings(top=top)
    if isinstance(probabilities, np.ndarray):
        rows, recipe = _distributions(probabilities, images, "`probabilities`"), "the probabilities given"
    else:
        rows, recipe = _read(Path(probabilities), images), f"the probabilities {Path(probabilities).name}"
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
        recipe=recipe,
        seconds=time.perf_counter() - start,
    )


def _read(file: Path, data: ImageData) -> Float[Tensor, "n k"]:
    """Rows of the file, each a distribution over the classes."""
    with guarded(file, "probabilities in a .npy file"):
        # mapped first: the header of a small file may promise an array that fills the memory
        mapped = np.load(demand_regular(file), mmap_mode="r", allow_pickle=False)
        return _distributions(mapped, data, str(file))


def _distributions(given: Any, data: ImageData, name: str) -> Float[Tensor, "n k"]:
    """An array as rows, if each is a distribution over the classes."""
    wanted, shape = (len(data), data.n_classes), getattr(given, "shape", None)
    if shape != wanted or given.dtype.kind != "f":
        found = "several arrays" if shape is None else f"{given.dtype} of shape {shape}"
        raise InvalidInput(
            f"{name} must hold floating-point numbers of shape {wanted}: a row for each image in the order of the "
            f"data, a column for each class ({', '.join(data.classes[:4])}{', ...' * (data.n_classes > 4)}). It "
            f"holds {found}."
        )
    rows = torch.from_numpy(np.array(given, dtype=np.float64))
    if not rows.isfinite().all() or rows.min() < 0 or (rows.sum(1) - 1).abs().max() > TOLERANCE:
        raise InvalidInput(f"{name} must hold probabilities: numbers from 0 to 1, each row with the sum 1.")
    return rows
