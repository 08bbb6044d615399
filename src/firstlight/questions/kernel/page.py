"""The page of a kernel that learned features."""

import torch

from firstlight.maths.correlation import cosine, pearson
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.pictures import picture_grid
from firstlight.pages.page import Answer, Page, Panel, Section
from firstlight.questions.kernel.measure import LearnedKernel, ThreeTheories

HELPS, PATTERNS = "Does learning features help a kernel?", "Which patterns does the kernel look for?"


def rfm_page(learned: LearnedKernel) -> Page:
    """Turn what a ConvRFM learned into a page."""
    return Page(
        title=f"What a kernel learned from {learned.data_name}",
        lead=(_gained(learned), _labels(learned)),
        sections=kernel_sections(learned),
        facts={
            "Data": f"{learned.data_name}, {learned.n} images",
            "Kernel": learned.kernel,
            "Time": f"{learned.seconds:.0f} s",
        },
    )


def kernel_answers(learned: LearnedKernel) -> tuple[Answer, ...]:
    """What the kernel machine learned."""
    return (
        Answer(
            question="What did a kernel find that learns features?", answer=_gained(learned), section=HELPS
        ),
        Answer(question="Did the labels tell it where to look?", answer=_labels(learned), section=PATTERNS),
    )


def kernel_sections(learned: LearnedKernel) -> tuple[Section, ...]:
    """Rounds, eigenvectors, maps on photographs, and three accounts of the first layer."""
    by_round = () if len(learned.rounds) == 1 else (_by_round(learned),)
    return (_rounds(learned), _vectors(learned), *by_round, _maps(learned), *_first_layer(learned))


def _gained(learned: LearnedKernel) -> str:
    gain = 100 * (learned.test - learned.plain_test)
    chosen = "the plain kernel itself" if learned.best == 0 else f"round {learned.best}"
    return (
        f"Of {learned.n_test} unseen images the plain kernel classifies {learned.share(learned.plain_test)} "
        f"correctly, the chosen one {learned.share(learned.test)}: {gain:+.1f} points. Validation squared error chose "
        f"{chosen}; no test image took part."
    )


def _labels(learned: LearnedKernel) -> str:
    return (
        f"With shuffled labels the kernel learns a metric at cosine {learned.cosine:.2f} (Pearson "
        f"{learned.pearson:.2f}) to this one. That part comes from the images alone, the rest from their labels."
    )


def rounds_figure(learned: LearnedKernel) -> Figure:
    """Validation error and accuracy by round, beside the error with shuffled labels."""
    errors, shuffled_errors = (
        torch.tensor([[done.error for done in rounds]], dtype=torch.float64)
        for rounds in (learned.rounds, learned.shuffled_rounds)
    )
    right = torch.tensor([[r.accuracy for r in learned.rounds]], dtype=torch.float64)
    comparable = [Curve(name="squared error, shuffled labels", values=shuffled_errors, role="random labels")]
    return curves(
        [
            Curve(name="validation squared error", values=errors),
            Curve(name="validation accuracy", values=right, role="other"),
            *(comparable if shuffled_errors.shape == errors.shape else []),
        ],
        title="Error and accuracy by round",
        alt="Validation squared error and accuracy against the round",
        x="round (0 is the plain kernel)",
        y="squared error, share correct",
        at=range(len(learned.rounds)),
    )


def _rounds(learned: LearnedKernel) -> Section:
    return Section(
        title=HELPS,
        answer=_gained(learned),
        panels=(
            Panel(
                figure=rounds_figure(learned),
                shows="Every round solves a ridge regression and replaces M by the gradient outer product. Shuffled "
                "labels are judged by shuffled labels: their error is that of guessing.",
                published="Gains of 0 to 4 points, chosen on the test set.",
                formulas=("kernel",),
                measured=f"{_gained(learned)} {_round_by_round(learned)}",
            ),
        ),
    )


def _round_by_round(learned: LearnedKernel) -> str:
    told = ", ".join(f"{done.number}: {done.error:.3f} and {done.accuracy:.1%}" for done in learned.rounds)
    return f"Validation squared error and accuracy by round: {told}."


def _by_round(learned: LearnedKernel) -> Section:
    pictures = [learned.pictures(rounds) for rounds in (learned.rounds, learned.shuffled_rounds)]
    # of every round the row with true labels, then that with shuffled labels
    rows = [row for pair in zip(*pictures, strict=False) for row in pair]
    spectra = learned.spectra(learned.rounds)
    leading = "; ".join(
        f"round {done.number}: {share[0]:.0%}, cosine {cosine(done.metric.flatten(), other.metric.flatten()):.2f}"
        for done, other, share in zip(learned.rounds, learned.shuffled_rounds, spectra, strict=False)
    )
    measured = f"Share of the largest eigenvalue, and cosine of M to that of shuffled labels: {leading}."
    last = max(1, len(spectra) - 1)
    return Section(
        title="How does M change round by round?",
        answer=measured,
        panels=(
            Panel(
                figure=picture_grid(
                    torch.cat(rows),
                    title="Leading eigenvectors of M by round: true labels, then shuffled, of each round",
                    alt="Rows of small patterns, two for each round",
                    columns=len(learned.vectors),
                ),
                shows="One pair of rows for each round: where both show the same patterns, they come from the images.",
                published="Not shown by round in the papers.",
                measured=measured,
                formulas=("eigenvectors",),
            ),
            Panel(
                figure=curves(
                    [
                        Curve(name=f"round {number}", values=share[None], shade=number / last)
                        for number, share in enumerate(spectra)
                    ],
                    title="Spectrum of M by round",
                    alt="Shares of the trace against the number of the eigenvalue, one curve for each round",
                    x="eigenvalue, by decreasing size",
                    y="share of the trace",
                    log_y=bool((spectra > 0).all()),
                ),
                shows="A steep curve is a metric of few directions: later rounds collapse towards rank one.",
                published="Not shown by round in the papers.",
                measured=measured,
                formulas=("kernel",),
            ),
        ),
    )


def vectors_figure(learned: LearnedKernel) -> Figure:
    """Leading eigenvectors of the metric, with true and with shuffled labels."""
    return picture_grid(
        torch.cat([learned.vectors, learned.shuffled_vectors]),
        title="Leading eigenvectors of M: true labels above, shuffled below",
        alt="Two rows of small patterns, the eigenvectors with true and with shuffled labels",
        columns=len(learned.vectors),
    )


def _vectors(learned: LearnedKernel) -> Section:
    shares = ", ".join(f"{v:.0%}" for v in learned.values.tolist())
    return Section(
        title=PATTERNS,
        answer=_labels(learned),
        panels=(
            Panel(
                figure=vectors_figure(learned),
                shows=f"Shares of the trace, true labels: {shares}.",
                published="Leading eigenvectors look like edge detectors.",
                formulas=("eigenvectors",),
                measured=_labels(learned),
            ),
        ),
    )


def _maps(learned: LearnedKernel) -> Section:
    alike = float(pearson(learned.maps.flatten(1), learned.shuffled_maps.flatten(1)).mean())

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
                learned.photos,
                "Photographs",
                "A row of small photographs",
                f"{len(learned.photos)} photographs that no machine was fitted to.",
            ),
            grid(
                learned.maps,
                "Maps of M, true labels",
                "The photographs' edges light up",
                f"Correlation with the maps below {alike:.2f}: what is the same in both does not come from labels.",
            ),
            grid(
                learned.shuffled_maps,
                "Maps of M, shuffled labels",
                "The same photographs through the control",
                "The control: labels that have nothing to do with the images.",
            ),
        ),
    )


def theories_figure(three: ThreeTheories) -> Figure:
    """Amplitudes along the components of the patches: kernel, network and theory."""
    return curves(
        [
            Curve(name="learned kernel", values=three.kernel[None], role="other"),
            Curve(name="trained network", values=three.network[None]),
            Curve(name="linear network, no labels", values=three.theory[None], role="theory"),
        ],
        title="Amplitude along the components of the patches",
        alt="Three curves of amplitude against patch component, from coarse to fine",
        x="patch component, by decreasing variance",
        y="amplitude, largest = 1",
    )


def _first_layer(learned: LearnedKernel) -> tuple[Section, ...]:
    if learned.first_layer is None:
        return ()
    three = learned.first_layer
    words = ", ".join(f"{name} {value:.2f}" for name, value in three.agreement().items())
    return (
        Section(
            title="Do three theories of the first layer agree?",
            answer=f"Correlation of the energy profiles: {words}.",
            panels=(
                Panel(
                    figure=theories_figure(three),
                    shows="The metric of the kernel, the first layer of a network, and the closed form of the linear "
                    "network.",
                    published="The papers give three accounts, each alone; nobody set them side by side.",
                    measured=f"Pearson correlation: {words}.",
                    formulas=("energy", "kernel", "implicit bias"),
                ),
            ),
        ),
    )
