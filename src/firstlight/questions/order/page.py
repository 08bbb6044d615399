"""The learning order on a page: first and last images, agreement, predictors, doubtful labels."""

from collections.abc import Sequence

import torch

from firstlight.data.images import ShownImages
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.heatmap import heatmap
from firstlight.pages.figures.pictures import picture_grid
from firstlight.pages.page import Answer, Panel, Section
from firstlight.questions.order.measure import OrderReport
from firstlight.questions.order.prediction import N_HARDNESS, Hardness, OrderSkill, known_hardness
from firstlight.questions.order.tour_part import OrderTour

FIRST_AND_LAST = "Which images are learned first, and which last?"
AGREE = "Do networks agree on the order?"


def order_sections(tour: OrderTour) -> tuple[Section, ...]:
    """Sections of the page about the order in which images were learned."""
    report = tour.report
    return (
        _first_and_last(report), _agreement(tour), _predictors(report), *_hard(report), _doubtful(report)
    )  # fmt: skip


def order_answers(tour: OrderTour) -> tuple[Answer, ...]:
    """Which images came first and last, and whether all networks agree."""
    report = tour.report
    first, last = _typical(report.earliest, report.latest), _typical(report.latest, report.earliest)
    return (
        Answer(
            question="Which images were learned first, which last?",
            answer=f"More common among the {len(report.earliest.labels)} images learned first: {first}; among the "
            f"{len(report.latest.labels)} learned last: {last}. {_agreed(report)}",
            section=FIRST_AND_LAST,
        ),
    )


def _typical(shown: ShownImages, others: ShownImages) -> str:
    """The classes that some images have more of than others do; a class in both tells nothing of either."""
    more = {
        name: shown.labels.count(name) - others.labels.count(name) for name in dict.fromkeys(shown.labels)
    }
    chosen = [name for name in sorted(more, key=lambda name: -more[name]) if more[name] > 0][:2]
    return " and ".join(chosen) if chosen else "no class"


def _agreed(report: OrderReport) -> str:
    if report.constancy is None:
        return "There were too few networks to tell whether the order is the same for all."
    return (
        f"Two ensembles of networks from different seeds agree on the order at {report.constancy.value.value:.2f} "
        "(1 is the same order, 0 none in common)."
    )


def _first_and_last(report: OrderReport) -> Section:
    ranked = report.scores.sort(descending=True).values
    early = float(ranked[: len(report.earliest.index)].mean())
    late = float(ranked[-len(report.latest.index) :].mean())
    return Section(
        title=FIRST_AND_LAST,
        answer=f"The {len(report.earliest.index)} earliest images were classified correctly in {early:.0%} of all "
        f"epochs, the {len(report.latest.index)} latest in {late:.0%}; the average image in "
        f"{float(report.scores.mean()):.0%}.",
        panels=(
            Panel(
                figure=earliest_figure(report),
                shows="By accessibility, the easiest first.",
                published="Images that the leading principal components classify are learned first.",
                measured=f"{_counted(report.earliest)}; classified correctly in {early:.0%} of all epochs.",
                formulas=("accessibility",),
            ),
            Panel(
                figure=latest_figure(report),
                shows="The hardest first.",
                published="Images whose class depends on components of small variance come last.",
                measured=f"{_counted(report.latest)}; classified correctly in {late:.0%} of all epochs.",
                formulas=("accessibility",),
            ),
        ),
    )


def _agreement(tour: OrderTour) -> Section:
    report = tour.report
    constancy = report.constancy
    measured = answer = _agreed(report)
    if constancy is not None:
        fast = (
            ""
            if constancy.fastest is None
            else f", {constancy.fastest.value:.2f} among the fastest {constancy.share:.0%}, "
        )
        chosen = "" if constancy.fastest is None else "which a third ensemble chose"
        measured = (
            f"Correlation {constancy.value.value:.2f}, 95% range {constancy.value.low:.2f} to "
            f"{constancy.value.high:.2f} over images{fast}{chosen}."
        )
    epochs = report.accuracy.shape[1]
    figure = curves(
        [Curve(name="training accuracy", values=report.accuracy)],
        title="Accuracy while the order forms",
        alt="Training accuracy over epochs; the band is the range over networks",
        x="epoch",
        y="accuracy",
        at=range(1, epochs + 1),
        height=280,
    )
    return Section(
        title=AGREE,
        answer=answer,
        panels=(
            Panel(
                figure=figure,
                shows=f"{tour.recipe}.",
                published="Networks of one architecture learn the same examples in nearly the same order.",
                measured=measured,
                formulas=("constancy", "accessibility"),
            ),
        )
        if epochs > 1
        else (),
    )


def _predictors(report: OrderReport) -> Section:
    if not report.correlations:
        return Section(
            title="What predicts the order without training?", answer="No score varies on these images."
        )
    best = report.correlations[report.best_predictor]
    return Section(
        title="What predicts the order without training?",
        answer=f"{skill_sentence(report.skill)} Of single scores “{report.best_predictor}” correlates best with it, at "
        f"{best.pointwise.value:.2f}, image by image (chance: ±{2 * best.chance.spread:.2f}).",
        panels=(
            Panel(
                figure=predictors_figure(report),
                shows="Correlation with accessibility. Correlations of bins flatter a score: they average away what it "
                "misses. Contrast knows nothing of the classes and serves as control.",
                published="Accessibility against critical component: -0.93 after smoothing; against "
                "discriminability in pixels: 0.44 to 0.51 on small data sets.",
                measured=f"The best here is “{report.best_predictor}” at {best.pointwise.value:.2f}.",
                formulas=("critical component", "discriminability"),
            ),
        ),
    )


def predictors_figure(report: OrderReport) -> Figure:
    """Correlation of every score that needs no training with the order, beside chance."""
    rows = [[r.pointwise.value, r.rank, r.binned, r.chance.spread] for r in report.correlations.values()]
    return heatmap(
        torch.tensor(rows, dtype=torch.float64),
        rows=list(report.correlations),
        columns=("image by image", "ranks", "in 20 bins", "chance (sd)"),
        title="Cheap scores against the learning order",
        alt="Correlation of each cheap score with the learning order, with what chance gives",
    )


def skill_sentence(skill: OrderSkill | None) -> str:
    """Whether late images can be predicted before training, beside chance."""
    if skill is None:
        return "Whether late images can be predicted cannot be told: one of the orders does not vary."
    number = f"{skill.rank.value:.2f} ({skill.rank.low:.2f} to {skill.rank.high:.2f})"
    against = (
        f"rank correlation with the measured order over {skill.n_images:,} images: {number}; "
        f"chance: ±{skill.chance:.2f}"
    )
    if skill.rank.low <= skill.chance:
        return f"Late images cannot be predicted before training ({against})."
    how = "can be predicted well" if skill.rank.low > 0.5 else "can be predicted in part"
    return f"Late images {how} before training ({against})."


def hardness_sentence(found: Hardness) -> str:
    """The number, and the known data sets it lies between."""
    value = found.value
    text = (
        f"{value.value:.2f} ({value.low:.2f} to {value.high:.2f}) on a scale from 0, neighbours in pixels share their "
        "class, to 1, pixels tell nothing."
    )
    if found.n_images < N_HARDNESS:
        return f"{text} It was measured on {found.n_images:,} images: on few, every data set looks harder."
    known = sorted(known_hardness(), key=lambda one: one.value.value)
    below = [one for one in known if one.value.high < value.low]
    above = [one for one in known if one.value.low > value.high]
    parts = [f"harder than {below[-1].name}"] if below else []
    parts += [f"easier than {above[0].name}"] if above else []
    return f"{text} That is {' and '.join(parts)}." if parts else text


def _hard(report: OrderReport) -> tuple[Section, ...]:
    found = report.hardness
    if found is None:
        return ()
    rows = [found, *known_hardness()]
    ranges = [torch.tensor([one.value.low, one.value.value, one.value.high]) for one in rows]
    figure = dots(
        [one.name for one in rows],
        [Dots.of("hardness", ranges)],
        title="Hardness beside known data sets",
        alt=f"Hardness of this data set and of {len(rows) - 1} known ones",
        y="0 easy, 1 pixels tell nothing",
        height=320,
    )
    return (
        Section(
            title="How hard is this data set?",
            answer=hardness_sentence(found),
            panels=(
                Panel(
                    figure=figure,
                    shows="Share of the ten nearest neighbours in pixels that belong to another class, divided by that "
                    f"of random neighbours. The known data sets were measured on {N_HARDNESS:,} images each; wrong "
                    "labels were drawn at random.",
                    published="Not in the papers: a use of their discriminability.",
                    measured=f"{found.value.value:.2f} on {found.n_images:,} images of {found.n_classes} classes.",
                    formulas=("discriminability",),
                ),
            ),
        ),
    )


def _doubtful(report: OrderReport) -> Section:
    return Section(
        title="Which labels look wrong?",
        answer="Images that every ensemble learned late and whose neighbours belong to another class. "
        "Look at them: some are right and just hard.",
        panels=(
            Panel(
                figure=suspects_figure(report),
                shows="The most suspicious first.",
                published="Not in the papers: a use of what they found.",
                measured=f"Labelled {', '.join(report.suspects.labels[:12])}"
                f"{' ...' if len(report.suspects.labels) > 12 else ''}.",
                formulas=("suspicion",),
            ),
        ),
    )


def earliest_figure(report: OrderReport) -> Figure:
    """Images learned first, the easiest first."""
    return _pictures(report.earliest, "Learned first", "images that all networks learned in the first epochs")


def latest_figure(report: OrderReport) -> Figure:
    """Images learned last, the hardest first."""
    return _pictures(report.latest, "Learned last", "images that the networks learned late or never")


def suspects_figure(report: OrderReport) -> Figure:
    """Images whose labels look wrong, the most suspicious first."""
    return _pictures(report.suspects, "Doubtful labels", "images whose label may be wrong")


def _pictures(shown: ShownImages, title: str, what: str) -> Figure:
    return picture_grid(
        shown.images,
        title=title,
        alt=f"{len(shown.images)} {what}",
        signed=False,
        columns=min(12, len(shown.images)),
        zoom=_zoom(shown),
    ).with_columns(_names(shown))


def _names(shown: ShownImages) -> dict[str, Sequence[object]]:
    """How a reader finds the images again: by file, or by number in the data set."""
    names: dict[str, Sequence[object]] = {
        "label": shown.labels,
        "number in the data set": shown.position.tolist(),
    }
    return {**names, "file": shown.files} if shown.files else names


def _zoom(shown: ShownImages) -> int:
    return max(1, 64 // max(shown.images.shape[2:]))


def _counted(shown: ShownImages) -> str:
    counts = {name: shown.labels.count(name) for name in dict.fromkeys(shown.labels)}
    return ", ".join(f"{n} {name}" for name, n in sorted(counts.items(), key=lambda item: -item[1]))
