"""The ledger as a page: every claim, what was reported, what was measured, and both verdicts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight._internal.errors import InvalidInput
from firstlight._internal.store.runs import Store
from firstlight.claims.catalogue import THEMES, all_claims
from firstlight.claims.ledger import SUMMARIES, Entry, counts, entry_not_run, read_entries, versions
from firstlight.claims.reproduce import study_figures
from firstlight.claims.study import ABSENT, STUDIES
from firstlight.pages.page import Panel, render_with, write_html


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
        Its figure, if its runs are at hand.
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
        return counts(entry for study in self.studies for entry in study.entries)


def ledger_blocks(entries: Sequence[Entry], *, store: Store | None = None) -> tuple[ThemeBlock, ...]:
    """Order the lines of a ledger by theme and study, with the figures whose runs `store` holds."""
    figures = study_figures(entries, store) if store else {}
    panels = {name: Panel(figure=figure, shows="") for name, figure in figures.items()}
    return tuple(
        ThemeBlock(
            name=theme,
            studies=tuple(
                _study(name, [e for e in entries if (e.theme, e.study) == (theme, name)], panels)
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
        Where the runs behind them are kept; figures of others are left out.
    static : bool, default False
        Without any script, and therefore without the filter.
    """
    if not entries:
        raise InvalidInput("There is no claim to show.")
    themes = ledger_blocks(entries, store=store)
    panels = [study.panel for theme in themes for study in theme.studies if study.panel]
    totals = counts(entries)
    return render_with(
        "ledger.html",
        panels=panels,
        static=static,
        themes=themes,
        summaries=[name for name in SUMMARIES if totals.get(name)],
        counts=totals,
        n_claims=len(entries),
        versions=versions(entries),
        scales=sorted({entry.scale for entry in entries}),
        numbers=estimates_text,
    )


def write_ledger(
    entries: Sequence[Entry], path: Path, *, store: Store | None = None, static: bool = False
) -> Path:
    """Write the ledger page, whole or not at all."""
    return write_html(render_ledger(entries, store=store, static=static), path)


def recorded_entries(folder: Path, *, scale: str = "desk") -> list[Entry]:
    """Lines of all ledger files of a scale; claims that are in none of them count as not run."""
    known = {e.claim: e for theme in THEMES for e in read_entries(folder / scale / f"{theme}.json")}
    if not known:
        raise InvalidInput(
            f"No {scale} ledger in {folder}. `firstlight reproduce all --scale {scale} --record {folder}` writes one."
        )
    return [
        known.get(claim.id)
        or entry_not_run(claim, scale=scale, reason=ABSENT.get(claim.id, "not in this ledger"))
        for claim in all_claims().values()
    ]


def _studies(entries: Sequence[Entry], theme: str) -> list[str]:
    """Names of the studies of a theme in the order of the claims, claims without one last."""
    names = dict.fromkeys(entry.study for entry in entries if entry.theme == theme)
    return sorted(names, key=lambda name: not name)


def _study(name: str, entries: list[Entry], panels: Mapping[str, Panel]) -> StudyBlock:
    question = STUDIES[name].question() if name in STUDIES else "Claims without a study"
    first = next((entry for entry in entries if entry.runs), entries[0])
    return StudyBlock(
        name=name,
        question=question,
        entries=tuple(entries),
        panel=panels.get(name),
        facts=_facts(first) if first.runs else {},
    )


def _facts(entry: Entry) -> dict[str, str]:
    return {
        "Scale": entry.scale,
        "Seeds": ", ".join(str(seed) for seed in entry.seeds),
        "Cost": f"{entry.cpu_seconds:.1f} CPU seconds",
        "Recorded": f"{entry.date}, firstlight {entry.version}, commit {entry.commit}",
        "Runs": ", ".join(entry.runs),
        "Differs from the published setting in": _settings(entry.departures) or "nothing",
        "Settings": _settings(entry.settings),
        "Environment": _settings(entry.environment),
    }


def estimates_text(estimates: Mapping[str, Mapping[str, Any]]) -> str:
    """Means with their intervals in one line.

    Examples
    --------
    >>> estimates_text({"gap": {"mean": 0.5, "interval": [0.4, 0.6], "seeds": [0.4, 0.6]}})
    'gap 0.5 [0.4, 0.6]'
    >>> estimates_text({"error": {"mean": 1e-12, "interval": ["-inf", "inf"], "seeds": [1e-12]}})
    'error 1e-12'
    """
    return ", ".join(f"{name} {estimate_text(row)}" for name, row in estimates.items())


def estimate_text(estimate: Mapping[str, Any]) -> str:
    """One mean with its interval, which a single seed does not have."""
    low, high = estimate["interval"]
    return f"{estimate['mean']}" if isinstance(low, str) else f"{estimate['mean']} [{low}, {high}]"


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())
