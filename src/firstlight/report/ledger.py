"""The ledger as a page: every claim, what was reported, what was measured, and the verdict."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight.claims import ABSENT, STUDIES, THEMES, VERDICTS, Entry, all_claims
from firstlight.claims.ledger import entry_not_run, read
from firstlight.core.errors import InvalidInput, StoreProblem
from firstlight.figures import Figure
from firstlight.report.page import Panel, render_with, write_html
from firstlight.store import Run, Store


@dataclass(frozen=True, kw_only=True)
class StudyBlock:
    """One study with the claims it judges.

    Parameters
    ----------
    name, question : str
        Of the study; empty for claims without one.
    entries : tuple of Entry
        Lines of the ledger.
    panel : Panel or None
        Its figure, if the run is at hand.
    facts : dict of str to str
        Cost, settings, commit.
    """

    name: str
    question: str
    entries: tuple[Entry, ...]
    panel: Panel | None
    facts: dict[str, str]


@dataclass(frozen=True, kw_only=True)
class ThemeBlock:
    """One theme with its studies."""

    name: str
    studies: tuple[StudyBlock, ...]

    @property
    def title(self) -> str:
        """The name as words."""
        return self.name.replace("_", " ").capitalize()

    @property
    def counts(self) -> dict[str, int]:
        """Number of claims of each verdict."""
        found = Counter(entry.verdict for study in self.studies for entry in study.entries)
        return {verdict: found[verdict] for verdict in VERDICTS}


def ledger_blocks(entries: Sequence[Entry], *, store: Store | None = None) -> tuple[ThemeBlock, ...]:
    """Order the lines of a ledger by theme and study, with the figures whose runs `store` holds."""
    return tuple(
        ThemeBlock(
            name=theme,
            studies=tuple(
                _study(name, [e for e in entries if (e.theme, e.study) == (theme, name)], store)
                for name in _studies(entries, theme)
            ),
        )
        for theme in THEMES
        if any(entry.theme == theme for entry in entries)
    )


def render_ledger(entries: Sequence[Entry], *, store: Store | None = None, static: bool = False) -> str:
    """Return the ledger as HTML.

    Parameters
    ----------
    entries : sequence of Entry
        Judged claims.
    store : Store, optional
        Where the runs behind them lie; figures of others are left out.
    static : bool, default False
        Without any script, and therefore without the filter.
    """
    if not entries:
        raise InvalidInput("There is no claim to show.")
    themes = ledger_blocks(entries, store=store)
    panels = [study.panel for theme in themes for study in theme.studies if study.panel]
    counts = {verdict: sum(theme.counts[verdict] for theme in themes) for verdict in VERDICTS}
    scales = sorted({entry.scale for entry in entries})
    return render_with(
        "ledger.html",
        panels=panels,
        static=static,
        themes=themes,
        verdicts=VERDICTS,
        counts=counts,
        n_claims=len(entries),
        scales=scales,
        numbers=_numbers,
    )


def write_ledger(
    entries: Sequence[Entry], path: Path, *, store: Store | None = None, static: bool = False
) -> Path:
    """Write the ledger page, whole or not at all."""
    return write_html(render_ledger(entries, store=store, static=static), path)


def recorded_entries(folder: Path) -> list[Entry]:
    """Lines of all ledger files of a folder; claims that are in none of them count as not run."""
    rows = {row["claim"]: row for theme in THEMES for row in read(folder / f"{theme}.json")}
    if not rows:
        raise InvalidInput(
            f"No ledger in {folder}. `firstlight reproduce all --record {folder}` writes one, one JSON file per theme."
        )
    try:
        known = {name: Entry(**row) for name, row in rows.items()}
    except TypeError as error:
        raise StoreProblem(f"The ledger in {folder} is of another version ({error}).") from error
    scale = next(iter(known.values())).scale
    return [
        known.get(claim.id)
        or entry_not_run(claim, scale=scale, note=ABSENT.get(claim.id, "not in this ledger"))
        for claim in all_claims().values()
    ]


def _studies(entries: Sequence[Entry], theme: str) -> list[str]:
    """Names of the studies of a theme in the order of the claims, claims without one last."""
    names = dict.fromkeys(entry.study for entry in entries if entry.theme == theme)
    return sorted(names, key=lambda name: not name)


def _study(name: str, entries: list[Entry], store: Store | None) -> StudyBlock:
    known = name in STUDIES
    run = _run(entries, store)
    first = next((entry for entry in entries if entry.run), entries[0])
    facts = {} if not first.run else {
        "Scale": first.scale, "Cost": f"{first.cpu_seconds:.1f} CPU seconds", "Commit": first.commit,
        "Run": first.run, "Settings": _numbers(first.config),
    }  # fmt: skip
    panel = None
    if known and run is not None:
        figure: Figure = STUDIES[name].body.figure(run.result)
        panel = Panel(figure=figure, shows="")
    question = STUDIES[name].question if known else "Claims without a study"
    return StudyBlock(name=name, question=question, entries=tuple(entries), panel=panel, facts=facts)


def _run(entries: list[Entry], store: Store | None) -> Run | None:
    name = next((entry.run for entry in entries if entry.run), "")
    if store is None or not name:
        return None
    try:
        return store.load(name)
    except (StoreProblem, InvalidInput):  # recorded elsewhere, or by another version
        return None


def _numbers(values: dict[str, Any]) -> str:
    """Short text for settings or measurements.

    Examples
    --------
    >>> _numbers({"mean": 0.98123456, "depths": [1, 2]})
    'mean 0.9812, depths [1, 2]'
    """
    return ", ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in values.items())
