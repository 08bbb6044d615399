"""Doubtful labels on a page: the pictures, the label they carry, the class that fits better, and why."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn import functional as F

from firstlight.pages.figures.pictures import mosaic, png_uri
from firstlight.pages.page import render_with, write_html
from firstlight.questions.labels.result import FEWEST_PER_CLASS, LabelCheck

THUMBNAIL = 96  # pixels; a page with sixty stays below a megabyte or two


@dataclass(frozen=True, kw_only=True)
class Suspect:
    """One picture with all that its card shows.

    Parameters
    ----------
    number : int
        Place in the list, from 1.
    picture : str
        The image as a ``data:`` address.
    label, likely : str
        Class it carries, and the class that fits better; empty if unknown.
    name : str
        File, or number in the data set.
    suspicion, reason : str
        How suspicious, and why.
    file : str
        By which a decision names it: the file, or the number in the data set.
    """

    number: int
    picture: str
    label: str
    likely: str
    name: str
    suspicion: str
    reason: str
    file: str


def write_labels_page(check: LabelCheck, path: Path, *, static: bool = False) -> Path:
    """Write the page about doubtful labels, whole or not at all."""
    suspects = suspect_cards(check)
    html = render_with(
        "labels.html",
        panels=[],
        static=static,
        folder=Path(__file__).parent,
        check=check,
        suspects=suspects,
        head=_head(check),
        sentences=labels_sentences(check),
        table=check.by_class(),
        pairs=check.confusions(),
        store=_key(check),
        is_exportable=bool(check.files),
        labels=sorted({suspect.label for suspect in suspects}),
        likely=sorted({suspect.likely for suspect in suspects if suspect.likely}),
    )
    return write_html(html, path)


def _head(check: LabelCheck) -> str:
    """What the list is and what it is worth, in one line."""
    if not check.learned:
        return labels_sentences(check)[0]
    text = f"{_count(check)} most suspicious first"
    if check.planted is None:
        return f"{text}; some are right and just hard."
    return (
        f"{text}; some are right and just hard. Of labels that we changed ourselves, {check.planted.found.percent()} "
        f"are among the first {check.planted.chance:.0%}."
    )


def _key(check: LabelCheck) -> str:
    """By which the browser keeps the decisions about these labels."""
    digest = hashlib.sha256(repr((check.name, check.classes, check.files, check.position.tolist())).encode())
    return f"firstlight labels {digest.hexdigest()[:16]}"


def suspect_cards(check: LabelCheck) -> list[Suspect]:
    """The suspects in order."""
    shown = check.suspects
    return [
        Suspect(
            number=place + 1,
            picture=_thumbnail(shown.images[place]),
            label=shown.labels[place],
            likely=check.likely_name(index),
            name=shown.files[place] if shown.files else f"number {int(shown.position[place])}",
            suspicion=f"{float(check.suspicion[index]):.3f}",
            reason=check.reason(index),
            file=shown.files[place] if shown.files else str(int(shown.position[place])),
        )
        for place, index in enumerate(shown.index.tolist())
    ]


def labels_sentences(check: LabelCheck) -> tuple[str, ...]:
    """What was measured, each number with its null."""
    accuracy = check.accuracy
    known = (
        f"On images they were not trained on, the networks predict the given label in {accuracy.value:.1%} of cases "
        f"(95% range {accuracy.low:.1%} to {accuracy.high:.1%}); always answering the largest class gives "
        f"{check.majority:.1%}."
        if bool((check.likely >= 0).all())
        else f"Over the recorded epochs the network predicted the given label in {accuracy.value:.1%} of cases; always "
        f"answering the largest class gives {check.majority:.1%}."
    )
    if not check.learned:
        return (
            "No label is suspected: the networks did not learn to tell the classes apart, so what they find "
            "strange means nothing. Give more time or more images, or try another network.",
            known,
            *_left_out(check),
        )
    planted = check.planted
    if planted is None:
        worth = "How many errors are found is not known: that needs labels changed before training."
        return (
            f"{_count(check)} most suspicious first. Look at them: some are right and just hard.",
            known,
            worth,
            *_left_out(check),
        )
    found = planted.found
    most = planted.most_wrong
    return (
        f"{_count(check)} most suspicious first. Look at them: some are right and just hard.",
        f"Of {planted.n} labels that we changed ourselves at random, {found.value:.0%} are among the most suspicious "
        f"{planted.chance:.0%} (95% range {found.low:.0%} to {found.high:.0%}); a random order would find "
        f"{planted.chance:.0%}. Confusions of similar classes are harder to find than random errors.",
        f"By the same measure at most about {most:.1%} of the labels are wrong ({most * len(check.labels):,.0f} of "
        f"{len(check.labels):,}), if wrong labels look like those we changed. Right labels of hard images look "
        "suspicious too, so there may be far fewer, or none.",
        known,
        *_left_out(check),
    )


def _left_out(check: LabelCheck) -> tuple[str, ...]:
    if not check.left_out:
        return ()
    listed = ", ".join(f"{name} ({n})" for name, n in list(check.left_out.items())[:12])
    more = ", ..." if len(check.left_out) > 12 else ""
    return (
        f"Not checked, because a class of fewer than {FEWEST_PER_CLASS} images cannot be learned: {listed}{more}. Look "
        "whether a name is misspelt.",
    )


def _count(check: LabelCheck) -> str:
    n = len(check.suspects.index)
    return f"{n} suspect{'s' if n != 1 else ''} of {len(check.labels):,} labels,"


def _thumbnail(image: Float[Tensor, "c h w"]) -> str:
    side = max(image.shape[1:])
    picture = image[None, :1] if image.shape[0] == 2 else image[None]
    if side > THUMBNAIL:
        height, width = (max(1, round(length * THUMBNAIL / side)) for length in image.shape[1:])
        picture = F.interpolate(picture, size=(height, width), mode="area")
    zoom = max(1, THUMBNAIL // max(picture.shape[2:]))
    pixels: Tensor = mosaic(picture, columns=1, zoom=zoom, gap=0)
    return png_uri(pixels.to(torch.uint8))
