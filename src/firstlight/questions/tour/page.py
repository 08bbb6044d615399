"""The page of the tour: answers first, then the figures behind them."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch

from firstlight._internal.result import Result
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.pictures import picture_grid
from firstlight.pages.page import Answer, Highlight, Page, Panel, Section
from firstlight.questions.copy_or_memorise.page import (
    identity_answers,
    identity_sections,
    labelled_grid,
    word_at,
)
from firstlight.questions.copy_or_memorise.tour_part import IdentityTour
from firstlight.questions.first_layer.page import (
    filters_over_time,
    first_layer_answers,
    first_layer_sections,
)
from firstlight.questions.first_layer.tour_part import FirstLayerTour
from firstlight.questions.inspect.page_ansatz import ansatz_answers, ansatz_sections
from firstlight.questions.inspect.page_newer_papers import later_sections
from firstlight.questions.kernel.measure import LearnedKernel
from firstlight.questions.kernel.page import kernel_answers, kernel_sections
from firstlight.questions.order.page import FIRST_AND_LAST, order_answers, order_sections
from firstlight.questions.order.tour_part import OrderTour
from firstlight.questions.regime.measure import RegimeResult
from firstlight.questions.regime.page import regime_answers, regime_sections
from firstlight.questions.tour.parts import PARTS, AnsatzTour, NetworkTour
from firstlight.questions.tour.run import Tour


@dataclass(frozen=True)
class PartPage:
    """How the result of one part of a tour appears on the page.

    Parameters
    ----------
    answers : callable
        What it says at the head of the page.
    sections : callable
        The figures behind that.
    highlight : callable
        The picture for the first screen, if it has one.
    """

    answers: Callable[[Any], tuple[Answer, ...]]
    sections: Callable[[Any], tuple[Section, ...]]
    highlight: Callable[[Any], Highlight | None] = lambda result: None

    def draw(self, result: Result) -> "DrawnPart":
        """Compute answers and figures."""
        return DrawnPart(
            answers=self.answers(result), sections=self.sections(result), highlight=self.highlight(result)
        )


@dataclass(frozen=True, kw_only=True)
class DrawnPart:
    """Answers and figures of one part."""

    answers: tuple[Answer, ...]
    sections: tuple[Section, ...]
    highlight: Highlight | None

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
        title=f"What {tour.name} learned from {tour.data_name}",
        lead=_lead(tour),
        highlights=tuple(part.highlight for part in shown if part.highlight is not None),
        answers=tuple(answer for part in shown for answer in part.answers),
        sections=tuple(section for part in shown for section in part.sections),
        facts={
            "Training": tour.recipe,
            "Time": f"{tour.seconds:.0f} s",
            "Grey and dashed": "what would be seen without learning",
        },
        pending=tuple(part.words for part in PARTS if part.name in tour.pending),
        reloads=reloads,
    )


def _lead(tour: Tour) -> tuple[str, ...]:
    if not isinstance(network := tour.parts.get("network"), NetworkTour):
        return (f"A network trained on {tour.data_name} is looked at. {tour.recipe}.",)
    return (_accurate(network),)


# ---------------------------------------------------------------- the network

TRAINED = "How was it trained, and how accurate is it?"


def _accurate(network: NetworkTour) -> str:
    return (
        f"It classifies {float(network.test_accuracy[0]):.1%} of {network.n_test:,} unseen images correctly "
        f"(chance: {network.chance:.0%})."
    )


def _moments(network: NetworkTour) -> list[str]:
    return ["initial" if step == 0 else f"step {step:,}" for step in network.steps]


def _film(network: NetworkTour) -> Highlight:
    return Highlight(
        title="The first layer during training",
        words=f"{network.film.shape[1]} filters from random weights to step {network.steps[-1]:,}. Press play.",
        figures=(filters_over_time(network.film, _moments(network)),),
        section=TRAINED,
    )


def _network(network: NetworkTour) -> tuple[Section, ...]:
    epochs = len(network.losses)
    panels = [
        Panel(
            figure=dots(
                network.names,
                [
                    Dots.of("chance", [torch.tensor([network.chance])] * len(network.names), role="null"),
                    Dots.of("training images", [one[None] for one in network.train_accuracy], role="other"),
                    Dots.of("unseen images", [one[None] for one in network.test_accuracy]),
                ],
                title="Accuracy of the networks of this page",
                alt="Share of training and of unseen images that each network classifies correctly, beside chance",
                y="share classified correctly",
                height=320,
            ),
            shows="The network in question first, then networks that learned the same task, then controls that could "
            "not: their labels were drawn at random, or their first layer was not trained.",
            published="The papers train to 90% and more on CIFAR-10.",
            measured=f"{network.recipe}.",
            formulas=("loss",),
        )
    ]
    if epochs > 1:
        panels.append(
            Panel(
                figure=curves(
                    [Curve(name="training loss", values=network.losses[None])],
                    title="Loss",
                    alt="Training loss falls over the epochs",
                    x="epoch",
                    y="cross-entropy (nats)",
                    at=range(1, epochs + 1),
                    height=260,
                ),
                shows="Mean of each epoch, before the updates, with augmented images and smoothed labels.",
                published="The papers report accuracies, seldom losses.",
                measured=f"From {float(network.losses[0]):.2f} to {float(network.losses[-1]):.2f}.",
                formulas=("loss",),
            )
        )
    trained = float(network.train_accuracy[0])
    answer = f"{_accurate(network)} Of its training images it classifies {trained:.1%} correctly."
    return (Section(title=TRAINED, answer=answer, panels=tuple(panels)),)


# ---------------------------------------------------------------- highlights of other parts

FEW = 10  # pictures in a row of a highlight
NEVER = 0.05  # share of the epochs below which an image was never learned


def _first_and_last(order: OrderTour) -> Highlight:
    report = order.report
    rows = torch.stack([report.earliest.images[:FEW], report.latest.images[:FEW]])
    figure = picture_grid(
        rows.flatten(0, 1),
        title="First and last images",
        alt=f"Above {rows.shape[1]} images that were learned first, below {rows.shape[1]} learned last or never",
        signed=False,
        columns=rows.shape[1],
        zoom=max(1, 32 // max(rows.shape[3:])),
    )
    ranked = report.scores.sort(descending=True).values
    early = float(ranked[: len(report.earliest.index)].mean())
    late = float(ranked[-len(report.latest.index) :].mean())
    return Highlight(
        title="Some images come first, some never" if late < NEVER else "Some images come first, some last",
        words=f"Above: right after {early:.0%} of the epochs. Below: after {late:.0%}; the average of "
        f"{order.n_images:,} images is {float(report.scores.mean()):.0%}.",
        figures=(figure,),
        section=FIRST_AND_LAST,
    )


def _copies(tour: IdentityTour) -> Highlight | None:
    alive = [depth for depth in tour.depths if tour.at(depth)]
    if not alive:
        return None
    shallow, deep = alive[0], alive[-1]
    inputs = tour.at(shallow)[0].settings.images.shown[:FEW]
    rows = [inputs, *(tour.at(depth)[0].measured.shown[:FEW] for depth in dict.fromkeys((shallow, deep)))]
    names = ["input", *(f"{depth} layer{'s' * (depth > 1)}" for depth in dict.fromkeys((shallow, deep)))]
    return Highlight(
        title=_copy_title(*(word_at(tour, depth) for depth in (shallow, deep))),
        words=f"Trained to return the first image. Rows: {', '.join(names)}.",
        figures=(
            labelled_grid(
                torch.stack(rows),
                rows=names,
                title="Copy or memorise",
                alt=f"Images in the first row, below them what networks of {' and '.join(names[1:])} return",
            ),
        ),
        section="What comes out?",
    )


def _copy_title(shallow: str, deep: str) -> str:
    """What the networks do, if it has a name.

    Examples
    --------
    >>> _copy_title("identity", "constant")
    'Shallow networks copy, deep ones memorise'
    """
    does = {"identity": "copy", "constant": "memorise"}
    if shallow not in does or deep not in does:
        return "Do networks copy or memorise?"
    if shallow == deep:
        return f"Shallow and deep networks {does[deep]}"
    return f"Shallow networks {does[shallow]}, deep ones {does[deep]}"


def _ansatz(result: AnsatzTour) -> tuple[Section, ...]:
    found = ansatz_sections(
        result.ansatz, eigenvectors=result.eigenvectors, maps=result.maps, shown=result.shown
    )
    return (*found, *later_sections(result.later))


# The type of a part's result decides how it is shown; names and order of the parts stand in `questions.tour.PARTS`.
PAGES: dict[type[Result], PartPage] = {
    NetworkTour: PartPage(lambda result: (), _network, _film),  # the head says how accurate it is
    OrderTour: PartPage(order_answers, order_sections, _first_and_last),
    IdentityTour: PartPage(identity_answers, identity_sections, _copies),
    FirstLayerTour: PartPage(first_layer_answers, first_layer_sections),
    AnsatzTour: PartPage(lambda result: ansatz_answers(result.ansatz), _ansatz),
    RegimeResult: PartPage(regime_answers, regime_sections),
    LearnedKernel: PartPage(kernel_answers, kernel_sections),
}
