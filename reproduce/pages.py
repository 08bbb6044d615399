"""What readers see: the ledger and summaries; `atlas` has every figure and table."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight._internal.errors import InvalidInput
from firstlight._internal.store.runs import Store
from firstlight.pages.page import Panel, render_with, write_html
from reproduce.catalogue import THEMES, claims, departures_text, flat, studies
from reproduce.entries import (
    SUMMARIES,
    Entry,
    Tally,
    counts,
    largest,
    read_entries,
    versions,
)  # fmt: skip
from reproduce.judge import INCONCLUSIVE, NOT_BEYOND, NOT_REPRODUCED, NOT_RUN, PARTLY, REPRODUCED
from reproduce.run import entry_not_run, study_figures

TEMPLATES = Path(__file__).with_name("templates")

# ---------------------------------------------------------------- the ledger


@dataclass(frozen=True, kw_only=True)
class StudyBlock:
    """One study with the claims it judges.

    Parameters
    ----------
    name : str
        Of the study; empty for claims without one.
    entries : tuple of Entry
        Lines of the ledger.
    panel : Panel or None
        Its figure, if its runs are at hand.
    """

    name: str
    entries: tuple[Entry, ...]
    panel: Panel | None

    @property
    def question(self) -> str:
        """What it asks."""
        return studies()[self.name].question() if self.name in studies() else "Claims without a study"

    @property
    def facts(self) -> dict[str, str]:
        """Cost, settings and commit of the first that ran."""
        return next((_facts(entry) for entry in self.entries if entry.runs), {})


@dataclass(frozen=True, kw_only=True)
class ThemeBlock:
    """One theme with its studies in the order of the claims, claims without one last."""

    name: str
    studies: tuple[StudyBlock, ...]

    @property
    def title(self) -> str:
        """The name as words."""
        return self.name.replace("_", " ").capitalize()

    @property
    def tally(self) -> Tally:
        """Exact relations that hold, and effects by verdict."""
        return Tally.of(entry for study in self.studies for entry in study.entries)


def ledger_blocks(entries: Sequence[Entry], *, store: Store | None = None) -> list[ThemeBlock]:
    """Order the lines of a ledger by theme and study, with the figures whose runs `store` holds."""
    figures = study_figures(entries, store) if store else {}
    panels = {name: Panel(figure=figure, shows="") for name, figure in figures.items()}
    found: dict[str, dict[str, list[Entry]]] = {theme: {} for theme in THEMES}
    for entry in sorted(entries, key=lambda entry: not entry.study):
        found[entry.theme].setdefault(entry.study, []).append(entry)
    return [
        ThemeBlock(
            name=theme,
            studies=tuple(
                StudyBlock(name=n, entries=tuple(e), panel=panels.get(n)) for n, e in named.items()
            ),
        )
        for theme, named in found.items()
        if named
    ]


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
    totals, tally = counts(entries), Tally.of(entries)
    return render_with(
        "ledger.html",
        folder=TEMPLATES,
        panels=panels,
        static=static,
        themes=themes,
        summaries=[name for name in SUMMARIES if totals.get(name)],
        effects=[name for name in SUMMARIES if tally.effects.get(name)],
        tally=tally,
        n_claims=len(entries),
        versions=versions(entries),
        scales=sorted({entry.scale for entry in entries}),
        numbers=estimates_text,
        departing=departures_text,
    )


def write_ledger(
    entries: Sequence[Entry], path: Path, *, store: Store | None = None, static: bool = False
) -> Path:
    """Write the ledger page, whole or not at all."""
    return write_html(render_ledger(entries, store=store, static=static), path)


SHOWN = ("desk", "night")
"""Ledgers to read, the smallest scale first."""


def recorded(folder: Path, scales: Sequence[str] = SHOWN) -> dict[str, list[Entry]]:
    """Entries of every claim in a ledger, in the order of the scales.

    Parameters
    ----------
    folder : Path
        Of the ledger.
    scales : sequence of str
        Which of them, in rising order.
    """
    found: dict[str, list[Entry]] = {}
    for scale in scales:
        for theme in THEMES:
            for entry in read_entries(folder / scale / f"{theme}.json"):
                found.setdefault(entry.claim, []).append(entry)
    if not found:
        raise InvalidInput(
            f"No {' or '.join(scales)} ledger in {folder}. `reproduce run all --scale {scales[0]} --record {folder}` "
            "writes one."
        )
    return found


def recorded_entries(folder: Path, *, scale: str | None = None) -> list[Entry]:
    """One line for every claim: that of a scale, or of the largest that was recorded; without one it is not run."""
    found = recorded(folder, SHOWN if scale is None else (scale,))
    return [
        largest(found[claim.id])
        if claim.id in found
        else entry_not_run(claim, scale=scale or SHOWN[0], reason="not in this ledger")
        for claim in claims().values()
    ]


def _facts(entry: Entry) -> dict[str, str]:
    return {
        "Scale": entry.scale,
        "Seeds": ", ".join(str(seed) for seed in entry.seeds),
        "Cost": "unknown" if entry.cpu_seconds is None else f"{entry.cpu_seconds:.3g} CPU seconds",
        "Recorded": f"{entry.date}, firstlight {entry.version}, commit {entry.commit}",
        "Runs": ", ".join(entry.runs),
        "Settings": _settings(entry.settings),
        "Environment": _settings(entry.environment),
    }


def estimates_text(estimates: Mapping[str, Mapping[str, Any]]) -> str:
    """Means with their intervals in one line.

    Examples
    --------
    >>> estimates_text({"gap": {"mean": 0.5, "interval": [0.4, 0.6], "seeds": [0.4, 0.6]}})
    'gap 0.5 [0.4, 0.6]'
    >>> estimates_text({"error": {"mean": 1e-12, "interval": None, "seeds": [1e-12]}})
    'error 1e-12'
    """
    return ", ".join(f"{name} {estimate_text(row)}" for name, row in estimates.items())


def estimate_text(estimate: Mapping[str, Any]) -> str:
    """One mean with its interval, which a single seed does not have."""
    interval = estimate["interval"]
    return f"{estimate['mean']}" + (f" [{interval[0]}, {interval[1]}]" if interval else "")


def _settings(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} {value}" for name, value in values.items())


# ---------------------------------------------------------------- summaries


def summary_table(entries: Sequence[Entry]) -> str:
    """Return a Markdown table of both answers by theme, exact relations apart; only verdicts that occur have a column.

    Parameters
    ----------
    entries : sequence of Entry
        All lines of a ledger.
    """
    tallies = {theme: Tally.of(e for e in entries if e.theme == theme) for theme in THEMES}
    tallies["all"] = Tally.of(entries)
    used = [name for name in SUMMARIES if tallies["all"].effects.get(name)]
    rows = [["theme", "exact relations", *used], ["---"] * (2 + len(used))]
    for theme, tally in tallies.items():
        rows.append(
            [theme.replace("_", " "), tally.exact, *(str(tally.effects.get(name, "")) for name in used)]
        )
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows)


def summary_sentence(entries: Sequence[Entry]) -> str:
    """The counts of a whole ledger in one sentence.

    Parameters
    ----------
    entries : sequence of Entry
        All lines of a ledger.
    """
    exact = [entry for entry in entries if entry.exact]
    effects = [entry for entry in entries if not entry.exact]
    count = Counter(entry.verdict for entry in effects)
    weak = sum(entry.verdict == REPRODUCED and entry.null_verdict == NOT_BEYOND for entry in effects)
    return (
        f"Of {len(exact)} exact relations {sum(entry.verdict == REPRODUCED for entry in exact)} hold. "
        f"Of {len(effects)} effects, {count[REPRODUCED]} are reproduced ({weak} of them no stronger than their null), "
        f"{count[PARTLY]} in part, {count[NOT_REPRODUCED]} not; {count[INCONCLUSIVE]} are open, and {count[NOT_RUN]} "
        "were not run."
    )


# ---------------------------------------------------------------- one claim at two scales

MOST = 6
"""Settings that are named; the others are counted."""


def contradiction(desk: Entry, night: Entry) -> str:
    """Why two scales answer differently, from what is recorded; empty if they agree or one did not run.

    The settings that changed between them, the number of seeds, and the condition that decided, where it is another.
    """
    if desk.summary == night.summary or NOT_RUN in (desk.verdict, night.verdict):
        return ""
    changed = _changed(flat(desk.settings), flat(night.settings))
    named = [f"{name} {here} → {there}" for name, (here, there) in list(changed.items())[:MOST]]
    if len(changed) > MOST:
        named.append(f"{len(changed) - MOST} more settings")
    words = [f"At night: {night.summary}; at the desk: {desk.summary}."]
    words += [f"What changed: {', '.join(named)}."] if named else []
    if len(desk.seeds) != len(night.seeds):
        words.append(f"The night has {_seeds(night)}, the desk {_seeds(desk)}.")
    if desk.applied != night.applied:
        words.append(f"It decided: {night.applied}; at the desk: {desk.applied}.")
    return " ".join(words)


def _seeds(entry: Entry) -> str:
    return f"{len(entry.seeds)} {'seed' if len(entry.seeds) == 1 else 'seeds'}"


def _changed(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings with different values, as (here, there)."""
    names = [name for name in {**here, **there} if name != "seed"]
    pairs = {name: (here.get(name, "-"), there.get(name, "-")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
