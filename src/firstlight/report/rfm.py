"""The page of a kernel that learned features."""

import torch

from firstlight.figures import Curve, curves, picture_grid
from firstlight.insights.rfm import LearnedKernel
from firstlight.maths import pearson
from firstlight.report.page import Answer, Page, Panel, Section

HELPS, PATTERNS = "Does learning features help a kernel?", "Which patterns does the kernel look for?"


def rfm_page(found: LearnedKernel) -> Page:
    """Turn what a ConvRFM learned into a page."""
    return Page(
        title=f"What a kernel learned from {found.data_name}",
        lead=(_gained(found), _labels(found)),
        sections=kernel_sections(found),
        facts={
            "Data": f"{found.data_name}, {found.n} images",
            "Kernel": found.kernel,
            "Time": f"{found.seconds:.0f} s",
        },
    )


def kernel_answers(found: LearnedKernel) -> tuple[Answer, ...]:
    """What the kernel machine found."""
    return (
        Answer(question="What did a kernel find that learns features?", answer=_gained(found), section=HELPS),
        Answer(question="Did the labels tell it where to look?", answer=_labels(found), section=PATTERNS),
    )


def kernel_sections(found: LearnedKernel) -> tuple[Section, ...]:
    """Rounds, eigenvectors, maps on photographs, and three accounts of the first layer."""
    return (_rounds(found), _vectors(found), _maps(found), *_first_layer(found))


def _gained(found: LearnedKernel) -> str:
    gain = 100 * (found.test - found.plain_test)
    chosen = "the plain kernel itself" if found.best == 0 else f"round {found.best}"
    return (
        f"The plain kernel classifies {found.plain_test:.1%} of unseen images correctly, the chosen one "
        f"{found.test:.1%} ({gain:+.1f} points). Validation squared error chose {chosen}; no test image took part."
    )


def _labels(found: LearnedKernel) -> str:
    return (
        f"With shuffled labels the kernel learns a metric at cosine {found.cosine:.2f} (Pearson "
        f"{found.pearson:.2f}) to this one: that much of what M looks at comes from the images alone, not from "
        "their labels."
    )


def _rounds(found: LearnedKernel) -> Section:
    errors = torch.tensor([[r.error for r in found.rounds]], dtype=torch.float64)
    right = torch.tensor([[r.accuracy for r in found.rounds]], dtype=torch.float64)
    return Section(
        title=HELPS,
        answer=_gained(found),
        panels=(
            Panel(
                figure=curves(
                    [
                        Curve(name="validation squared error", values=errors),
                        Curve(name="validation accuracy", values=right, role="other"),
                    ],
                    title="Error and accuracy by round",
                    alt="Validation squared error and accuracy against the round",
                    x="round (0 is the plain kernel)",
                    y="squared error, share right",
                    at=range(len(found.rounds)),
                ),
                shows="Every round solves a ridge regression and replaces M by the gradient outer product.",
                published="Gains of 0 to 4 points, chosen on the test set.",
                formulas=("kernel",),
                measured=_gained(found),
            ),
        ),
    )


def _vectors(found: LearnedKernel) -> Section:
    both = torch.cat([found.vectors, found.shuffled_vectors])
    shares = ", ".join(f"{v:.0%}" for v in found.values.tolist())
    return Section(
        title=PATTERNS,
        answer=_labels(found),
        panels=(
            Panel(
                figure=picture_grid(
                    both,
                    title="Leading eigenvectors of M: true labels above, shuffled below",
                    alt="Two rows of small patterns, the eigenvectors with true and with shuffled labels",
                    columns=len(found.vectors),
                ),
                shows=f"Shares of the trace, true labels: {shares}.",
                published="Leading eigenvectors look like edge detectors.",
                formulas=("eigenvectors",),
                measured=_labels(found),
            ),
        ),
    )


def _maps(found: LearnedKernel) -> Section:
    alike = float(pearson(found.maps.flatten(1), found.shuffled_maps.flatten(1)).mean())

    def grid(images: torch.Tensor, title: str, alt: str, measured: str) -> Panel:
        figure = picture_grid(images, title=title, alt=alt, signed=False, columns=len(images), zoom=3)
        return Panel(
            figure=figure,
            shows=title + ".",
            published="The learned metric lights up the edges of any photograph.",
            measured=measured,
            formulas=("maps",),
        )

    return Section(
        title="What does the kernel see in photographs it never saw?",
        answer="Bright where the square root of x'Mx is large.",
        panels=(
            grid(
                found.photos,
                "Photographs",
                "A row of small photographs",
                f"{len(found.photos)} photographs that no machine was fitted to.",
            ),
            grid(
                found.maps,
                "Maps of M, true labels",
                "The photographs' edges light up",
                f"Correlation with the maps below {alike:.2f}: what is the same in both does not come from labels.",
            ),
            grid(
                found.shuffled_maps,
                "Maps of M, shuffled labels",
                "The same photographs through the control",
                "The control: labels that have nothing to do with the images.",
            ),
        ),
    )


def _first_layer(found: LearnedKernel) -> tuple[Section, ...]:
    if found.first_layer is None:
        return ()
    three = found.first_layer
    words = ", ".join(f"{name} {value:.2f}" for name, value in three.agreement().items())
    return (
        Section(
            title="Do three theories of the first layer agree?",
            answer=f"Correlation of the energy profiles: {words}.",
            panels=(
                Panel(
                    figure=curves(
                        [
                            Curve(name="learned kernel", values=three.kernel[None], role="other"),
                            Curve(name="trained network", values=three.network[None]),
                            Curve(name="linear network, no labels", values=three.theory[None], role="theory"),
                        ],
                        title="Energy along the components of the patches",
                        alt="Three curves of energy against patch component, from coarse to fine",
                        x="patch component, by decreasing variance",
                        y="energy, largest = 1",
                    ),
                    shows="The metric of the kernel, the first layer of a network, and the closed form of the linear "
                    "network.",
                    published="The papers give three accounts, each alone; nobody set them side by side.",
                    measured=f"Pearson correlation: {words}.",
                    formulas=("energy", "kernel", "implicit bias"),
                ),
            ),
        ),
    )
