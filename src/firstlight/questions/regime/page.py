"""Sections on lazy and feature-learning training, shared by the tour and by the page of one's own model."""

import math

import torch

from firstlight.maths.correlation import share_interval
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from firstlight.pages.page import Answer, Panel, Section
from firstlight.questions.regime.measure import RegimeResult

LAZY = "Was training lazy?"


def regime_answers(result: RegimeResult) -> tuple[Answer, ...]:
    """Whether the network left its linearisation."""
    return (Answer(question=LAZY, answer=_said(result), section=LAZY),)


def regime_sections(result: RegimeResult) -> tuple[Section, ...]:
    """The score on the line from lazy to learning with its null, and the accuracies behind it."""
    panels = [
        Panel(
            figure=regime_figure(result),
            shows="Two ways to leave the linearisation at the initial weights, and their mean: how far the tangent "
            f"kernel rotated on {result.n_kernel} images (1 minus the cosine), and which share of the change of the "
            "outputs the first-order expansion in the weights misses. A network that only fits a linear model has 0. "
            "The grey bars are the null, random steps of the same length; an independent initialisation has a "
            f"kernel rotated by {result.unrelated.rotation:.2f}.",
            published="Wide networks train lazily in theory; LeNet and AlexNet at usual widths do not, and are "
            "more accurate than their linearisations.",
            measured=result.sentence(),
            formulas=("linearisation", "regime"),
        )
    ]
    if math.isfinite(result.linear_accuracy):
        panels.append(
            Panel(
                figure=accuracy_figure(result),
                shows="Share of held-out images that the network, its first-order expansion moved the same way, and "
                "the best linear model around the same initial weights classify correctly. The last is solved exactly, "
                "so that no part of the gap is slow optimisation.",
                published="Networks beat their linearisations by 5 (MNIST) to 20 points (CIFAR-10) at usual width.",
                measured=f"A gap of {100 * result.gap:.0f} points. The linear model was fitted to {result.n_fit} "
                "images, which may be fewer than the network saw: more would narrow the gap.",
                formulas=("linearisation",),
            )
        )
    return (Section(title=LAZY, answer=_said(result), panels=tuple(panels)),)


def _said(result: RegimeResult) -> str:
    if not math.isfinite(result.linear_accuracy):
        return result.sentence()
    return (
        f"{result.sentence()} Of {result.n_test} unseen images it classifies {_share(result.accuracy, result)} "
        f"correctly, the best linear model around its initial weights, fitted to {result.n_fit} images, "
        f"{_share(result.linear_accuracy, result)}."
    )


def _share(value: float, result: RegimeResult) -> str:
    return share_interval(round(value * result.n_test), result.n_test).percent()


def accuracy_figure(result: RegimeResult) -> Figure:
    """Accuracy of the network and of its linearisations, with their intervals."""
    names = ["largest class", "linear, moved alike", "linear, solved", "network"]
    values = [result.chance, result.expansion_accuracy, result.linear_accuracy, result.accuracy]
    ranges = [share_interval(round(value * result.n_test), result.n_test) for value in values]
    return dots(
        names,
        [Dots.of("accuracy", [torch.tensor([a.low, a.value, a.high]) for a in ranges])],
        title="Accuracy of the network and of its linearisations",
        alt="Accuracy of the largest class, of two linear models around the initial weights, and of the network",
        y="share of held-out images",
        height=320,
    )


def regime_figure(result: RegimeResult) -> Figure:
    """The score and its parts on the line from lazy to feature learning, each beside its null."""
    steps, null = result.random_steps, result.null_range
    rotations = torch.tensor([step.kernel.rotation for step in steps])
    nulls = [
        torch.tensor([null.low, null.value, null.high]),
        *(
            torch.stack([x.min(), x.mean(), x.max()])
            for x in (rotations, torch.tensor([s.remainder for s in steps]))
        ),
    ]
    values = (result.score, result.training.kernel.rotation, result.training.remainder)
    return dots(
        ["score", "rotation", "unexplained"],
        [
            Dots.of("random steps of the same length", nulls, role="null"),
            Dots.of("this training", [torch.tensor([value]) for value in values]),
        ],
        title="Lazy or learning?",
        alt="Score, kernel rotation and unexplained change of this training, from 0 (lazy) to 1, with random steps",
        y="0 lazy, 1 feature learning",
        height=320,
    )
