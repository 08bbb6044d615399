"""Sections on lazy and feature-learning training, shared by the tour and by the page of one's own model."""

import math

import torch

from firstlight.figures import Dots, Figure, dots
from firstlight.insights import RegimeResult
from firstlight.report.page import Answer, Panel, Section

LAZY = "Was training lazy?"


def regime_answers(found: RegimeResult) -> tuple[Answer, ...]:
    """Whether the network left its linearisation."""
    return (Answer(question="Did it leave its linearisation?", answer=_said(found), section=LAZY),)


def regime_sections(found: RegimeResult) -> tuple[Section, ...]:
    """The score on the line from lazy to learning with its null, and the accuracies behind it."""
    panels = [
        Panel(
            figure=regime_figure(found),
            shows="Two ways to leave the linearisation at the start, and their mean: how far the tangent kernel "
            f"turned on {found.n_kernel} images (1 minus the cosine), and which share of the change of the outputs "
            "the first-order expansion in the weights misses. A network that only fits a linear model has 0. The "
            "grey marks are the null, a random step of the same length; an independent initialisation has a kernel "
            f"turned by {found.stranger.rotation:.2f}.",
            published="Wide networks train lazily in theory; LeNet and AlexNet at usual widths do not, and are "
            "more accurate than their linearisations.",
            measured=found.sentence(),
            formulas=("linearisation", "regime"),
        )
    ]
    if math.isfinite(found.linear_accuracy):
        panels.append(
            Panel(
                figure=_accuracy_figure(found),
                shows="Share of held-out images that the network, its first-order expansion moved the same way, and "
                "the best linear model around the same start get right. The last is solved exactly, so that no "
                "part of the gap is slow optimisation.",
                published="Networks beat their linearisations by 5 (MNIST) to 20 points (CIFAR-10) at usual width.",
                measured=f"A gap of {100 * found.gap:.0f} points. The linear model was fitted to {found.n_fit} images, "
                "which may be fewer than the network saw: more would narrow the gap.",
                formulas=("linearisation",),
            )
        )
    return (Section(title=LAZY, answer=_said(found), panels=tuple(panels)),)


def _said(found: RegimeResult) -> str:
    if not math.isfinite(found.linear_accuracy):
        return found.sentence()
    return (
        f"{found.sentence()} It classifies {found.accuracy:.0%} of unseen images correctly, the best linear model "
        f"around its start, fitted to {found.n_fit} images, {found.linear_accuracy:.0%}."
    )


def _accuracy_figure(found: RegimeResult) -> Figure:
    names = ["largest class", "linear, moved alike", "linear, solved", "network"]
    values = [found.chance, found.expansion_accuracy, found.linear_accuracy, found.accuracy]
    return dots(
        names,
        [Dots.of("accuracy", [torch.tensor([value]) for value in values])],
        title="Accuracy of the network and of its linearisations",
        alt="Accuracy of the largest class, of two linear models around the start, and of the network",
        y="share of held-out images",
        height=320,
    )


def regime_figure(found: RegimeResult) -> Figure:
    """The score and its parts on the line from lazy to feature learning, each beside its null."""
    parts = {
        "score": (found.score, found.null),
        "rotation": (found.training.kernel.rotation, found.random_step.kernel.rotation),
        "unexplained": (found.training.remainder, found.random_step.remainder),
    }
    return dots(
        list(parts),
        [
            Dots.of(
                "random step of the same length", [torch.tensor([b]) for _, b in parts.values()], role="null"
            ),
            Dots.of("this training", [torch.tensor([a]) for a, _ in parts.values()]),
        ],
        title="Lazy or learning?",
        alt="Score, kernel rotation and unexplained change of this training, from 0 (lazy) to 1, with a random step",
        y="0 lazy, 1 feature learning",
        height=320,
    )
