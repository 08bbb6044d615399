"""The page of the tour: answers first, then the figures behind them."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from firstlight.figures import Curve, curves, picture_grid, sprite
from firstlight.insights import ImagesTour, Tour, TrainingTour
from firstlight.report.ansatz import ansatz_answers, ansatz_sections
from firstlight.report.first_layer import first_layer_answers, first_layer_sections
from firstlight.report.identity import identity_answers, identity_sections
from firstlight.report.order import order_answers, order_sections
from firstlight.report.page import Answer, Page, Panel, Section
from firstlight.report.regime import regime_answers, regime_sections
from firstlight.report.rfm import kernel_answers, kernel_sections


@dataclass(frozen=True)
class TourPart:
    """How one part of a tour appears on the page.

    Parameters
    ----------
    words : str
        What it is called while it is still to come.
    answers : callable
        What it says at the head of the page.
    sections : callable
        The figures behind that.
    """

    words: str
    answers: Callable[[Any], tuple[Answer, ...]]
    sections: Callable[[Any], tuple[Section, ...]]


def tour_page(tour: Tour, *, reloads: bool = False) -> Page:
    """Turn what a tour has measured so far into a page.

    Parameters
    ----------
    tour : Tour
        Complete or not.
    reloads : bool, default False
        An unfinished page loads itself again.
    """
    done = [(part, found) for name, part in PARTS.items() if (found := getattr(tour, name)) is not None]
    recipe = tour.training.recipe if tour.training else "not finished"
    return Page(
        title=f"What a small network learned from {tour.data_name}",
        lead=(
            f"Small convolutional networks were trained on {tour.n_images:,} images of {tour.data_name} and looked at: "
            "what they learned, in what order, and why. Grey and dashed is what would be seen without learning.",
        ),
        answers=tuple(answer for part, found in done for answer in part.answers(found)),
        sections=tuple(section for part, found in done for section in part.sections(found)),
        facts={
            "Data": f"{tour.data_name}, {tour.n_images} images",
            "Training": recipe,
            "Time": f"{tour.seconds:.0f} s",
        },
        pending=tuple(PARTS[name].words for name in tour.pending),
        reloads=reloads,
    )


BEFORE, TRAINED = "What is in the images, before any network?", "How well did it train?"


def _images(found: ImagesTour) -> tuple[Section, ...]:
    share = found.variances / found.variances.sum()
    spectrum = curves(
        [Curve(name="variance", values=share[None])],
        title="Variance of the patch components",
        alt="Variance against component falls steeply over several powers of ten",
        x="patch component, by decreasing variance",
        y="share of the variance",
        log_y=True,
        height=300,
    )
    spectrum = dataclasses.replace(spectrum, sprite=sprite(found.components, name="component"))
    shown = picture_grid(
        found.shown,
        title="Some of the images",
        alt=f"{len(found.shown)} training images: {', '.join(dict.fromkeys(found.labels))}",
        signed=False,
        columns=12,
        zoom=max(1, 64 // max(found.shown.shape[2:])),
    ).with_columns({"label": found.labels})
    return (
        Section(
            title=BEFORE,
            answer=f"Small patches of the images are mostly flat or smooth: the first of their {len(share)} components "
            f"holds {float(share[0]):.0%} of the variance, the first three {float(share[:3].sum()):.0%}. What a "
            "network learns is measured along these components.",
            panels=(
                Panel(
                    figure=shown,
                    shows="Training images of all classes.",
                    published="The papers use CIFAR-10, MNIST and others.",
                    measured=f"{len(dict.fromkeys(found.labels))} classes among the {len(found.shown)} shown.",
                    formulas=("components",),
                ),
                Panel(
                    figure=spectrum,
                    shows="From coarse to fine: each point is a component of the patches that the first layer sees, "
                    "shown below. Touch one to see it enlarged.",
                    published="Components of image patches are waves, ordered roughly from low to high frequency.",
                    measured=f"The last component has {float(share[-1]):.1e} of the variance.",
                    formulas=("components",),
                ),
            ),
        ),
    )


def _trained(found: TrainingTour) -> str:
    return (
        f"The networks classify {found.test_accuracy.mean():.0%} of unseen images correctly "
        f"(the largest class alone would give {found.chance:.0%})."
    )


def _training_answers(found: TrainingTour) -> tuple[Answer, ...]:
    return (Answer(question="Did they learn the task?", answer=_trained(found), section=TRAINED),)


def _training(found: TrainingTour) -> tuple[Section, ...]:
    epochs = found.loss.shape[1]
    spread = f"{found.test_accuracy.min():.0%} to {found.test_accuracy.max():.0%}"
    panel = Panel(
        figure=curves(
            [Curve(name="training loss", values=found.loss)],
            title="Loss",
            alt="Training loss falls over the epochs",
            x="epoch",
            y="cross-entropy (nats)",
            at=range(1, epochs + 1),
            height=260,
        ),
        shows="Mean over seeds; the band is the range.",
        published="The papers train longer, to 90 % and more on CIFAR-10; a tour lasts minutes.",
        measured=f"{found.recipe}. Test accuracy {spread}.",
        formulas=("loss",),
    )
    answer = f"Training accuracy {found.train_accuracy.mean():.0%}. {_trained(found)}"
    return (Section(title=TRAINED, answer=answer, panels=(panel,) if epochs > 1 else ()),)


# Names as in `firstlight.insights.tour.PARTS`, in the order of the page.
PARTS: dict[str, TourPart] = {
    "images": TourPart("the images", lambda found: (), _images),
    "first_layer": TourPart("the first layer", first_layer_answers, first_layer_sections),
    "order": TourPart("the order of learning", order_answers, order_sections),
    "ansatz": TourPart("filters and gradients", ansatz_answers, ansatz_sections),
    "regime": TourPart("lazy or learning", regime_answers, regime_sections),
    "kernel": TourPart("a kernel that learns features", kernel_answers, kernel_sections),
    "identity": TourPart("copy or memorise", identity_answers, identity_sections),
    "training": TourPart("accuracy", _training_answers, _training),
}
