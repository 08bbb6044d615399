"""What a check of labels returns: the suspicion of every label, in numbers and in words."""

import math
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from jaxtyping import Float, Int
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.result import Result
from firstlight._internal.safe_text import write_csv
from firstlight._internal.shapes import Labels
from firstlight._internal.table import Row
from firstlight.data.catalogue import load
from firstlight.data.conversion import ImagesLike, as_images
from firstlight.data.images import ImageData, ShownImages, shown_images
from firstlight.data.label_table import load_label_table
from firstlight.maths.correlation import Interval, ranks, share_interval

FEWEST_IMAGES, FEWEST_PER_CLASS = 40, 4


@dataclass(frozen=True, kw_only=True)
class PlantedErrors(Result):
    """How well known errors are found: labels that we changed ourselves, at random, before training.

    Parameters
    ----------
    n : int
        Number of changed labels.
    found : Interval
        Share of them among the most suspicious 5 %, with its 95% range.
    chance : float
        What a random order finds there.
    separation : float
        Area under the ROC curve: chance that a changed label looks more suspicious than another.
    most_wrong : float
        Upper estimate of the share of wrong labels in the data, if those look like ours. A right label may
        look wrong too, so the true share can be far below.
    """

    n: int
    found: Interval
    chance: float
    separation: float
    most_wrong: float


@dataclass(frozen=True, kw_only=True, eq=False)
class LabelCheck(Result):
    """Suspicion of every label, with the class that fits better.

    All arrays are in the order of the images that were given.

    Parameters
    ----------
    name : str
        The data in words.
    classes : tuple of str
        Names of the classes.
    labels : Labels
        Class of every image as given.
    likely : integer Tensor of shape (n,)
        Class that networks give it which did not train on it; -1 if unknown, as from a record.
    suspicion : Tensor of shape (n,)
        Of a wrong label, in [0, 1]: the mean of three ranks, see :func:`check_labels`.
    accessibility : Tensor of shape (n,)
        Share of the networks and of the recorded epochs that gave the label.
    confidence, likely_confidence : Tensor of shape (n,)
        Probability of the label and of the likely class, by networks that did not train on the image; NaN
        if unknown.
    neighbours : Tensor of shape (n,)
        Share of its nearest images that have the same label; NaN if unknown.
    position : integer Tensor of shape (n,)
        Where every image stands in the data set that the images were chosen from.
    files : tuple of str
        The files, if each image has one.
    suspects : ShownImages
        The most suspicious images, with the label they carry; none if the networks did not learn.
    accuracy : Interval
        Share of images whose held-out class is the label, with its 95% range.
    majority : float
        Share of the largest class: the accuracy of always answering it.
    planted : PlantedErrors or None
        How well known errors are found; None from a record.
    recipe : str
        What was trained, in words.
    seconds : float
        Time it took.
    left_out : dict of str to int
        Classes of so few images that no network can learn them, with their number; their labels were not checked.
    """

    name: str
    classes: tuple[str, ...]
    labels: Labels
    likely: Int[Tensor, " n"]
    suspicion: Float[Tensor, " n"]
    accessibility: Float[Tensor, " n"]
    confidence: Float[Tensor, " n"]
    likely_confidence: Float[Tensor, " n"]
    neighbours: Float[Tensor, " n"]
    position: Int[Tensor, " n"]
    files: tuple[str, ...]
    suspects: ShownImages
    accuracy: Interval
    majority: float
    planted: PlantedErrors | None
    recipe: str
    seconds: float
    left_out: dict[str, int] = field(default_factory=dict)

    @property
    def learned(self) -> bool:
        """Whether the networks know more than the largest class; otherwise no label is suspected."""
        return self.accuracy.low > self.majority

    def likely_name(self, index: int) -> str:
        """Name of the class that fits the image better, empty if unknown."""
        likely = int(self.likely[index])
        return self.classes[likely] if likely >= 0 else ""

    def reason(self, index: int) -> str:
        """Why the label of an image is suspected, in words."""
        own = self.classes[int(self.labels[index])]
        parts = []
        if self.accessibility[index].isfinite():
            parts.append(
                f"the label {own} was right in {float(self.accessibility[index]):.0%} of the epochs "
                f"(average {float(self.accessibility.mean()):.0%})"
            )
        if likely := self.likely_name(index):
            parts.insert(
                0,
                f"networks that did not train on it say {likely} ({float(self.likely_confidence[index]):.0%}) "
                f"and {own} ({float(self.confidence[index]):.0%})",
            )
        if self.neighbours[index].isfinite():
            parts.append(f"{float(self.neighbours[index]):.0%} of its neighbours are {own}")
        return "; ".join(parts)

    def by_class(self) -> list[tuple[str, int, Interval | None, int]]:
        """Name, number of images, share that networks give the label too, and number of suspects of every class.

        The class with the smallest share comes first; shares are None if it is not known what networks say.
        """
        suspects = Counter(self.suspects.labels)
        rows: list[tuple[str, int, Interval | None, int]] = []
        for index, name in enumerate(self.classes):
            own = self.labels == index
            if n := int(own.sum()):
                agreed = int((self.likely[own] == index).sum())
                share = share_interval(agreed, n) if bool((self.likely >= 0).all()) else None
                rows.append((name, n, share, suspects[name]))
        return sorted(rows, key=lambda row: row[2].value if row[2] else 0.0)

    def confusions(self, most: int = 10) -> list[tuple[str, str, int]]:
        """Label, likely class and number of the most frequent disagreements."""
        wrong = (self.likely >= 0) & (self.likely != self.labels)
        pairs = Counter(zip(self.labels[wrong].tolist(), self.likely[wrong].tolist(), strict=True))
        return [(self.classes[a], self.classes[b], count) for (a, b), count in pairs.most_common(most)]

    def _rows(self) -> list[Row]:
        """One row per image, the most suspicious first, with its number in the data set it was chosen from."""
        numbers = ("accessibility", "confidence", "likely_confidence", "neighbours")
        rows: list[Row] = []
        for i in self.suspicion.argsort(descending=True, stable=True).tolist():
            values = {name: float(getattr(self, name)[i]) for name in numbers}
            rows.append({
                **({"file": self.files[i]} if self.files else {}), "index": int(self.position[i]),
                "label": self.classes[int(self.labels[i])], "likely_label": self.likely_name(i),
                "suspicion": round(float(self.suspicion[i]), 6), "reason": self.reason(i),
                **{name: value if math.isfinite(value) else None for name, value in values.items()},
            })  # fmt: skip
        return rows

    def suspicious(self) -> list[Row]:
        """The rows of :meth:`to_frame`; none if the networks did not learn."""
        return self._rows() if self.learned else []

    def write_csv(self, path: str | Path) -> Path:
        """Write :meth:`suspicious` to a file."""
        rows = self.suspicious()
        return write_csv(Path(path), {name: [row[name] for row in rows] for name in self._rows()[0]})


def labelled_images(data: ImagesLike) -> ImageData:
    """Images whose labels can be checked; paths of CSVs, folders and data sets are read."""
    if isinstance(data, str | Path):
        images = load_label_table(data) if Path(data).suffix.lower() == ".csv" else load(data, "train")
    else:
        images = as_images(data)
    if not images.is_labelled:
        raise InvalidInput(
            "`data` must have labels to check. Put images into one folder per class, or give a CSV."
        )
    _demand_enough(images)
    return images


def without_small_classes(images: ImageData) -> tuple[ImageData, dict[str, int]]:
    """The images of classes that are large enough to train and to hold some out, and the names of the others."""
    counts = images.counts[images.y]
    left_out = {
        name: int(count)
        for name, count in zip(images.classes, images.counts.tolist(), strict=True)
        if 0 < count < FEWEST_PER_CLASS
    }
    kept = images.take((counts >= FEWEST_PER_CLASS).nonzero().flatten()) if left_out else images
    return _demand_enough(kept), left_out


def _demand_enough(images: ImageData) -> ImageData:
    present = int((images.counts > 0).sum())
    if len(images) < FEWEST_IMAGES or present < 2:
        raise InvalidInput(
            f"`data` must hold at least {FEWEST_IMAGES} images of two classes or more; got {len(images)} images and "
            f"{present} classes. To train on a class takes {FEWEST_PER_CLASS} images."
        )
    return images


def demand_settings(*, top: int, budget: float | None = None, epochs: int | None = None) -> None:
    """Refuse settings that make no sense, before anything is computed."""
    if top < 1 or (epochs is not None and epochs < 1) or (budget is not None and not budget > 0):
        raise InvalidInput(
            f"`top` and `epochs` must be at least 1 and `budget` positive; got {top}, {epochs}, {budget}."
        )


def scaled_ranks(values: Float[Tensor, " n"]) -> Float[Tensor, " n"]:
    """Ranks from 0, the smallest, to 1; ties share their mean."""
    return (ranks(values.double()) - 1) / (len(values) - 1)


def joined_check(data: ImageData, *, top: int, **measured: Any) -> LabelCheck:
    """Join what was measured with the images that it is about, and pick the suspects."""
    majority = float(data.counts.max()) / len(data)
    order = measured["suspicion"].argsort(descending=True, stable=True)
    suspects = order[(measured["likely"] != data.y)[order]][:top]
    if measured["accuracy"].low <= majority:
        suspects = suspects[:0]
    return LabelCheck(
        name=str(data.meta.get("name", "images")),
        classes=data.classes,
        labels=data.y,
        position=data.origin,
        files=data.files,
        suspects=shown_images(suspects, data),
        majority=majority,
        **measured,
    )
