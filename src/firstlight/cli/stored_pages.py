"""A page from stored runs of any kind: what is known of a kind is shown as its own page would, the rest plainly."""

import dataclasses
import importlib
from collections.abc import Sequence
from typing import Any

from firstlight._internal.result import brief, plain
from firstlight._internal.store.runs import Run
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.page import Page, Panel, Section
from firstlight.training.ensemble import Trained

PAGES = {
    "Tour": "firstlight.questions.tour.page:tour_page",
    "Inspection": "firstlight.questions.inspect.page:inspection_page",
    "Comparison": "firstlight.questions.compare.page:comparison_page",
    "LearnedKernel": "firstlight.questions.kernel.page:rfm_page",
    "IdentityTour": "firstlight.questions.copy_or_memorise.page:identity_page",
    "IdentityRun": "firstlight.questions.copy_or_memorise.page:identity_runs_page",
    "Trained": "firstlight.cli.stored_pages:trained_page",
}
"""What makes the page of a result, by its kind: as text, so that a page needs only its own modules."""


def runs_page(runs: Sequence[Run]) -> Page:
    """Turn stored runs into one page; runs of the identity task are shown together.

    Parameters
    ----------
    runs : sequence of Run
        At least one.
    """
    tasks = [run for run in runs if _kind(run) == "IdentityRun"]
    groups = ([tasks] if tasks else []) + [[run] for run in runs if run not in tasks]
    pages = [_with_costs(_page(group), group) for group in groups]
    if len(pages) == 1:
        return pages[0]
    sections = [
        dataclasses.replace(section, title=f"{page.title}: {section.title}")
        for page in pages
        for section in page.sections
    ]
    return Page(
        title=f"Report on {len(runs)} runs",
        lead=tuple(f"{page.title}. {page.lead[0]}" if page.lead else page.title for page in pages),
        sections=tuple(sections),
        facts={"Runs": ", ".join(run.id for run in runs)},
    )


def _page(group: list[Run]) -> Page:
    run = group[0]
    if _kind(run) not in PAGES:
        return _plain_page(run)
    module, _, function = PAGES[_kind(run)].partition(":")
    results = [one.result for one in group]
    page: Page = getattr(importlib.import_module(module), function)(*results)
    return page


def _kind(run: Run) -> str:
    return type(run.result).__name__


def _with_costs(page: Page, group: list[Run]) -> Page:
    """Add settings, cost and origin of the runs to the last section."""
    if not page.sections:
        return page
    details = {}
    for run in group:
        name = "" if len(group) == 1 else f" of {run.id}"
        details[f"Run{name}"] = f"{run.id} ({run.spec.what}), finished {run.finished}"
        details[f"Cost{name}"] = f"{run.cpu_seconds:.1f} CPU seconds, {run.wall_seconds:.1f} s"
        details[f"Commit{name}"] = run.commit
        details[f"Settings{name}"] = _settings(run.spec.config)
    last = page.sections[-1]
    return dataclasses.replace(
        page,
        sections=(*page.sections[:-1], dataclasses.replace(last, details={**last.details, **details})),
    )


def _settings(config: dict[str, Any]) -> str:
    return ", ".join(f"{name} {brief(plain(value))}" for name, value in config.items())


# ---------------------------------------------------------------- networks


def trained_page(trained: Trained) -> Page:
    """Show how the loss fell and how far the weights moved."""
    loss, hits = trained.history.by_epoch(), trained.history.hits
    per_epoch = trained.history.steps_per_epoch
    moved = {
        name: float((trained.weights[name] - initial).norm() / initial.norm())
        for name, initial in trained.initial.items()
        if initial.is_floating_point() and float(initial.norm()) > 0
    }
    right = float(hits[-per_epoch:].nanmean())
    answer = f"The loss fell from {float(loss[0]):.3g} to {float(loss[-1]):.3g} in {len(loss)} epochs"
    answer += (
        f"; {right:.0%} of the images of the last epoch were classified correctly." if right == right else "."
    )
    values, title = (loss, "epoch") if len(loss) > 1 else (trained.history.loss, "step")
    panel = Panel(
        figure=curves(
            [Curve(name="training loss", values=values[None])],
            title="Loss", alt=f"Training loss by {title}", x=title, y="loss", height=300,
        ),
        shows="Mean of each epoch, before the updates." if title == "epoch" else "Every step.",
        measured="Distance from the initial weights, relative: " + ", ".join(f"{n} {v:.2f}" for n, v in moved.items()),
        formulas=("movement",),
    )  # fmt: skip
    section = Section(title="How did it train?", answer=answer, panels=(panel,))
    return Page(title=f"A trained network (seed {trained.seed})", lead=(answer,), sections=(section,))


# ---------------------------------------------------------------- anything else


def _plain_page(run: Run) -> Page:
    """The numbers of a result that has no page of its own."""
    result = run.result
    if dataclasses.is_dataclass(result):
        fields = {f.name: getattr(result, f.name) for f in dataclasses.fields(result)}
    else:
        fields = dict(result) if isinstance(result, dict) else {"value": result}
    kind = type(result).__name__
    words = "; ".join(f"{name} {brief(value)}" for name, value in fields.items())
    section = Section(title=run.spec.what, answer=f"{kind}: {words}.")
    return Page(title=f"Run {run.id}", lead=(f"A result of kind {kind}.",), sections=(section,))
