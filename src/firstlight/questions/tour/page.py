"""The page of the tour: answers first, then the figures behind them."""

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from firstlight._internal.result import Result
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.pictures import picture_grid, sprite
from firstlight.pages.page import Answer, Page, Panel, Section
from firstlight.questions.copy_or_memorise.page import identity_answers, identity_sections
from firstlight.questions.copy_or_memorise.tour_part import IdentityTour
from firstlight.questions.first_layer.page import first_layer_answers, first_layer_sections
from firstlight.questions.first_layer.tour_part import FirstLayerTour
from firstlight.questions.inspect.page_ansatz import ansatz_answers, ansatz_sections
from firstlight.questions.inspect.page_newer_papers import later_sections
from firstlight.questions.kernel.measure import LearnedKernel
from firstlight.questions.kernel.page import kernel_answers, kernel_sections
from firstlight.questions.order.page import order_answers, order_sections
from firstlight.questions.order.tour_part import OrderTour
from firstlight.questions.regime.measure import RegimeResult
from firstlight.questions.regime.page import regime_answers, regime_sections
from firstlight.questions.tour.ansatz import AnsatzTour
from firstlight.questions.tour.images import ImagesTour
from firstlight.questions.tour.parts import PARTS
from firstlight.questions.tour.run import Tour
from firstlight.questions.tour.training import TrainingTour


@dataclass(frozen=True)
class PartPage:
    """How the result of one part of a tour appears on the page.

    Parameters
    ----------
    answers : callable
        What it says at the head of the page.
    sections : callable
        The figures behind that.
    """

    answers: Callable[[Any], tuple[Answer, ...]]
    sections: Callable[[Any], tuple[Section, ...]]

    def draw(self, result: Result) -> "DrawnPart":
        """Compute answers and figures."""
        return DrawnPart(answers=self.answers(result), sections=self.sections(result))


@dataclass(frozen=True, kw_only=True)
class DrawnPart:
    """Answers and figures of one part."""

    answers: tuple[Answer, ...]
    sections: tuple[Section, ...]

    @property
    def summary(self) -> str:
        """The first sentence, for a terminal."""
        return (self.answers or self.sections)[0].answer.split(". ")[0]


def tour_page(tour: Tour, *, reloads: bool = False, drawn: dict[str, DrawnPart] | None = None) -> Page:
    """Turn what a tour has measured so far into a page.

    Parameters
    ----------
    tour : Tour
        Complete or not.
    reloads : bool, default False
        An unfinished page loads itself again.
    drawn : dict of str to DrawnPart, optional
        Parts of this tour that were drawn before, by name; the others are added. A page that grows draws nothing twice.
    """
    drawn = {} if drawn is None else drawn
    for name, result in tour.parts.items():
        if name not in drawn:
            drawn[name] = PAGES[type(result)].draw(result)
    shown = [drawn[part.name] for part in PARTS if part.name in tour.parts]
    return Page(
        title=f"What a small network learned from {tour.data_name}",
        lead=(
            f"Small convolutional networks were trained on {tour.n_images:,} images of {tour.data_name} and looked at: "
            "what they learned, in what order, and why. Grey and dashed is what would be seen without learning.",
        ),
        answers=tuple(answer for part in shown for answer in part.answers),
        sections=tuple(section for part in shown for section in part.sections),
        facts={
            "Data": f"{tour.data_name}, {tour.n_images} images",
            "Training": tour.recipe,
            "Time": f"{tour.seconds:.0f} s",
        },
        pending=tuple(part.words for part in PARTS if part.name in tour.pending),
        reloads=reloads,
    )


BEFORE, TRAINED = "What is in the images, before any network?", "How well did it train?"


def _images(images: ImagesTour) -> tuple[Section, ...]:
    share = images.variances / images.variances.sum()
    spectrum = curves(
        [Curve(name="variance", values=share[None])],
        title="Variance of the patch components",
        alt="Variance against component falls steeply over several powers of ten",
        x="patch component, by decreasing variance",
        y="share of the variance",
        log_y=True,
        height=300,
    )
    spectrum = dataclasses.replace(spectrum, sprite=sprite(images.components, name="component"))
    shown = picture_grid(
        images.shown,
        title="Some of the images",
        alt=f"{len(images.shown)} training images: {', '.join(dict.fromkeys(images.labels))}",
        signed=False,
        columns=12,
        zoom=max(1, 64 // max(images.shown.shape[2:])),
    ).with_columns({"label": images.labels})
    return (
        Section(
            title=BEFORE,
            answer=f"Small patches of the images are mostly flat or smooth: the first of their {len(share)} components "
            f"holds {float(share[0]):.0%} of the variance, the first three {float(share[:3].sum()):.0%}. What a "
            "network learns is measured along these components.",
            panels=(
                Panel(
                    figure=spectrum,
                    shows="From coarse to fine: each point is a component of the patches that the first layer sees, "
                    "shown below. Touch one to see it enlarged.",
                    published="Components of image patches are waves, ordered roughly from low to high frequency.",
                    measured=f"The last component has {float(share[-1]):.1e} of the variance.",
                    formulas=("components",),
                ),
                Panel(
                    figure=shown,
                    shows="Training images of all classes.",
                    published="The papers use CIFAR-10, MNIST and others.",
                    measured=f"{len(dict.fromkeys(images.labels))} classes among the {len(images.shown)} shown.",
                    formulas=("components",),
                ),
            ),
        ),
    )


def _trained(training: TrainingTour) -> str:
    return (
        f"The networks classify {training.test_accuracy.mean():.0%} of unseen images correctly "
        f"(the largest class alone would give {training.chance:.0%})."
    )


def _training_answers(training: TrainingTour) -> tuple[Answer, ...]:
    return (Answer(question="Did they learn the task?", answer=_trained(training), section=TRAINED),)


def _training(training: TrainingTour) -> tuple[Section, ...]:
    epochs = training.loss.shape[1]
    spread = f"{training.test_accuracy.min():.0%} to {training.test_accuracy.max():.0%}"
    panel = Panel(
        figure=curves(
            [Curve(name="training loss", values=training.loss)],
            title="Loss",
            alt="Training loss falls over the epochs",
            x="epoch",
            y="cross-entropy (nats)",
            at=range(1, epochs + 1),
            height=260,
        ),
        shows="Mean over seeds; the band is the range.",
        published="The papers train longer, to 90 % and more on CIFAR-10; a tour lasts minutes.",
        measured=f"{training.recipe}. Test accuracy {spread}.",
        formulas=("loss",),
    )
    answer = f"Training accuracy {training.train_accuracy.mean():.0%}. {_trained(training)}"
    return (Section(title=TRAINED, answer=answer, panels=(panel,) if epochs > 1 else ()),)


def _ansatz(result: AnsatzTour) -> tuple[Section, ...]:
    found = ansatz_sections(
        result.ansatz, eigenvectors=result.eigenvectors, maps=result.maps, shown=result.shown
    )
    return (*found, *later_sections(result.later))


# The type of a part's result decides how it is shown; names and order of the parts stand in `questions.tour.PARTS`.
PAGES: dict[type[Result], PartPage] = {
    ImagesTour: PartPage(lambda result: (), _images),
    FirstLayerTour: PartPage(first_layer_answers, first_layer_sections),
    OrderTour: PartPage(order_answers, order_sections),
    AnsatzTour: PartPage(lambda result: ansatz_answers(result.ansatz), _ansatz),
    RegimeResult: PartPage(regime_answers, regime_sections),
    LearnedKernel: PartPage(kernel_answers, kernel_sections),
    IdentityTour: PartPage(identity_answers, identity_sections),
    TrainingTour: PartPage(_training_answers, _training),
}
