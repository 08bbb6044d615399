"""The page of the identity task: the picture grid, the maps over angle, and a word per network."""

import dataclasses
from collections import Counter
from collections.abc import Mapping
from itertools import groupby

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.heatmap import heatmap
from firstlight.pages.figures.pictures import picture_grid
from firstlight.pages.page import Answer, Page, Panel, Section
from firstlight.questions.copy_or_memorise.task import IdentityRun
from firstlight.questions.copy_or_memorise.tour_part import IdentityTour

WHAT_THEY_DO = {
    "identity": "copy others too",
    "constant": "always return the memorised image",
    "edge detector": "return the contours of others",
    "noise": "turn others into noise",
    "none": "do neither clearly",
}
PUBLISHED = (
    "Shallow convolutional networks copy, those of middle depth return contours, very deep ones answer with "
    "the training image."
)


def identity_page(tour: IdentityTour) -> Page:
    """Turn the networks trained so far into a page; call it again as more are done."""
    first = tour.runs[0]
    done = f"{len(tour.runs)} of {tour.planned}"
    return Page(
        title="Copy or memorise?",
        lead=(_answer(tour), *tour.problems),
        sections=identity_sections(tour),
        facts={
            "Task": first.settings.words,
            "Networks": done if len(tour.runs) == tour.planned else f"{done} (still training)",
            "Time": f"{sum(run.seconds for run in tour.runs):.0f} CPU seconds",
        },
    )


def identity_runs_page(*runs: IdentityRun) -> Page:
    """The page of finished networks, whatever task stored them."""
    ordered = sorted(runs, key=lambda run: (run.task["depth"], run.task["seed"]))
    return identity_page(IdentityTour(runs=tuple(ordered), planned=len(ordered)))


def identity_answers(tour: IdentityTour) -> tuple[Answer, ...]:
    """Copy or memorise, in a sentence."""
    return (Answer(question="Copy or memorise?", answer=_answer(tour), section="What comes out?"),)


def identity_sections(tour: IdentityTour) -> tuple[Section, ...]:
    """Sections for a page of any kind; empty while no network has findings."""
    alive = [depth for depth in tour.depths if tour.at(depth)]
    if not alive:
        return ()
    return (_grid_section(tour, alive), _map_section(tour, alive), _score_section(tour, alive))


def _layers(depth: int) -> str:
    return f"{depth} layer" if depth == 1 else f"{depth} layers"


def word_at(tour: IdentityTour, depth: int) -> str:
    """What most networks of a depth do."""
    return Counter(run.measured.behaviour for run in tour.at(depth)).most_common(1)[0][0]


def _answer(tour: IdentityTour) -> str:
    return behaviour_by_depth({depth: word_at(tour, depth) for depth in tour.depths if tour.at(depth)})


def behaviour_by_depth(behaviours: Mapping[int, str]) -> str:
    """What networks do to images that they were not trained on, in a sentence; depths that do the same go together."""
    if not behaviours:
        return "No network could be trained."
    groups = [
        (word, list(depths)) for word, depths in groupby(behaviours, key=lambda depth: behaviours[depth])
    ]
    words = [f"{_span(depths)} {WHAT_THEY_DO.get(word, word)}" for word, depths in groups]
    return f"Trained to copy one image: networks of {'; '.join(words)}."


def _span(depths: list[int]) -> str:
    """Depths that follow each other, in words.

    Examples
    --------
    >>> _span([1, 3, 5]), _span([20])
    ('1 to 5 layers', '20 layers')
    """
    return _layers(depths[0]) if len(depths) == 1 else f"{depths[0]} to {_layers(depths[-1])}"


def _grid_section(tour: IdentityTour, alive: list[int]) -> Section:
    first = tour.at(alive[0])[0]
    inputs = first.settings.images.shown
    outputs = [tour.at(depth)[0].measured.shown for depth in alive]
    labels = ["input", *map(_layers, alive)]
    return Section(
        title="What comes out?",
        answer=_answer(tour),
        panels=(
            Panel(
                figure=labelled_grid(
                    torch.stack([inputs, *outputs]),
                    rows=labels,
                    title="Inputs and what networks of each depth make of them",
                    alt=f"Pictures: inputs in the first row, then a row for each of {', '.join(labels[1:])}",
                ),
                shows="First the training image, then unseen images, a blend, images of another data set, "
                "patterns and noise. Grey values are those of the training image, cut off beyond its range.",
                published=PUBLISHED,
                measured=f"First seed of each depth. {first.settings.words}.",
                formulas=("identity score",),
            ),
        ),
    )


def labelled_grid(
    images: Float[Tensor, "rows columns c h w"], *, rows: list[str], title: str, alt: str
) -> Figure:
    """Pictures in rows with names, all on the grey scale of the first picture."""
    low, high = images[0, 0].min(), images[0, 0].max()
    scaled = (images - low) / torch.where(high > low, high - low, torch.ones_like(high))
    n, side = images.shape[1], images.shape[3]
    zoom, gap = max(1, 56 // max(images.shape[3:])), 2
    plain = picture_grid(scaled.flatten(0, 1), title=title, alt=alt, signed=False, columns=n, zoom=zoom)
    step = side * zoom + gap
    layout = dict(plain.plot["layout"])
    layout["yaxis"] = {
        **layout["yaxis"],
        "visible": True,
        "tickvals": [gap + step * (i + 0.5) for i in range(len(rows))],
        "ticktext": rows,
    }
    return dataclasses.replace(plain, plot={**plain.plot, "layout": layout})


def _map_section(tour: IdentityTour, alive: list[int]) -> Section:
    responses = {depth: [run.measured.response for run in tour.at(depth)] for depth in alive}
    rhos = [f"{rho:.1f}" for rho in responses[alive[0]][0].rhos.tolist()]

    def panel(reference: str) -> Panel:
        table = torch.stack(
            [torch.stack([getattr(r, reference) for r in responses[d]]).mean(0) for d in alive]
        )
        figure = heatmap(
            table,
            rows=[_layers(depth) for depth in alive],
            columns=rhos,
            title=f"Similarity to the {reference}",
            alt=f"Cosine of outputs with the {reference}, by depth and angle to the training image",
            x="cosine of test and training image",
            y="depth",
        )
        null = "grows from 0 to 1 along the row for a constant map, too" if reference == "identity" else ""
        return Panel(
            figure=figure,
            shows=f"Cosine, mean over draws and seeds. {'It ' + null + '.' if null else ''}",
            published=PUBLISHED,
            measured="; ".join(
                f"{_layers(d)}: {float(row[0]):.2f} for an orthogonal image, {float(row[-1]):.2f} for its own"
                for d, row in zip(alive, table, strict=True)
            )
            + ".",
            formulas=("response",),
        )

    return Section(
        title="At which angle to the training image does it stop copying?",
        answer="Images whose cosine with the training image runs from 0 (orthogonal) to 1 (the image itself).",
        panels=(panel("identity"), panel("constant")),
    )


def _score_section(tour: IdentityTour, alive: list[int]) -> Section:
    shown = {depth: tour.at(depth) for depth in alive}
    n = min(len(runs) for runs in shown.values())

    def rows(name: str) -> Tensor:
        return torch.tensor(
            [[shown[d][s].measured.scores["unseen"].means[name] for d in alive] for s in range(n)]
        )

    untrained = torch.tensor([[shown[d][s].measured.untrained for d in alive] for s in range(n)])
    steps = ", ".join(f"{d}: {max(r.measured.steps for r in shown[d])}" for d in alive)
    stuck = [f"{d}" for d in alive if not all(r.measured.converged for r in shown[d])]
    return Section(
        title="How sure is it?",
        answer="Correlation of the outputs on unseen images with the input and with the training image.",
        panels=(
            Panel(
                figure=curves(
                    [
                        Curve(name="with the input", values=rows("identity")),
                        Curve(name="with the training image", values=rows("constant"), role="other"),
                        Curve(name="with the input, untrained", values=untrained, role="null"),
                    ],
                    title="Copying and memorising by depth",
                    alt="Correlation with the input falls and that with the training image rises with depth",
                    x="weight layers",
                    y="Pearson correlation",
                    at=alive,
                ),
                shows="Mean over seeds; the band is the range.",
                published=PUBLISHED,
                formulas=("identity score",),
                measured=f"Training steps by depth: {steps}."
                + (f" Not below the tolerance: {', '.join(stuck)} layers." if stuck else ""),
            ),
        ),
    )
