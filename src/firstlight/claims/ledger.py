"""The ledger: reported against measured, claim by claim, with everything a reader needs to check a verdict."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from firstlight._internal.errors import StoreProblem
from firstlight._internal.files import whole_file
from firstlight._internal.store.runs import Run
from firstlight._internal.untrusted_files import read_json
from firstlight.claims.catalogue import Claim
from firstlight.claims.evidence import Estimate, Evidence
from firstlight.claims.rules import BEYOND, NO_NULL, NOT_BEYOND, NOT_RUN, REPRODUCED, VERDICTS, NoNull, judge
from firstlight.claims.study import Study
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.svg import svg


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the ledger.

    Parameters
    ----------
    claim, theme, statement, exact, reported : str or bool
        As in claims.yaml.
    verdict : str
        Whether the effect appears, one of :data:`firstlight.claims.VERDICTS`.
    null_verdict : str
        Whether it exceeds its null, one of :data:`firstlight.claims.NULL_VERDICTS`; empty if nothing was judged.
    null_reason : str
        Why there is no null, if so.
    scale : str
        At which the study ran.
    departures : dict of str to str
        Settings that differ from the published ones.
    rule : dict of str to str
        The rule as executed, in words.
    applied : str
        The condition that decided.
    reason : str
        Why the verdict is not the plain one.
    measured, null : dict of str to dict
        Mean, interval and the value of each seed, by name.
    version, commit, date : str
        Of firstlight, and the day when the numbers were measured. An old entry is no wrong one.
    study, settings, seeds, runs, environment, cpu_seconds
        What made the numbers, where, and at what cost.
    note : str
        Said beside the verdict.
    change : str
        Why the rule differs from version 1, if it does.
    """

    claim: str
    theme: str
    statement: str
    exact: bool
    reported: str
    verdict: str
    scale: str
    null_verdict: str = ""
    null_reason: str = ""
    departures: dict[str, str] = field(default_factory=dict)
    rule: dict[str, str] = field(default_factory=dict)
    applied: str = ""
    reason: str = ""
    measured: dict[str, dict[str, Any]] = field(default_factory=dict)
    null: dict[str, dict[str, Any]] = field(default_factory=dict)
    study: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    seeds: list[int] = field(default_factory=list)
    runs: list[str] = field(default_factory=list)
    version: str = ""
    commit: str = ""
    date: str = ""
    environment: dict[str, Any] = field(default_factory=dict)
    cpu_seconds: float = 0.0
    note: str = ""
    change: str = ""

    @property
    def summary(self) -> str:
        """Both answers in a few words, as counted in summaries."""
        if self.verdict != NOT_RUN and self.null_verdict == NOT_BEYOND:
            return f"{self.verdict}, not beyond its null"
        return self.verdict


def entry_of(
    claim: Claim, study: type[Study], runs: Mapping[int, Run], evidence: Evidence, *, scale: str
) -> Entry:
    """Judge one claim from the runs of its study. At smoke scale only exact claims are judged."""
    rule = study.rule_of(claim.id)
    judgement = judge(rule, evidence, exact=claim.exact)
    measured, null = evidence.estimates(rule.names), evidence.estimates(rule.null_names)
    verdict, null_verdict, reason = judgement.verdict, judgement.null_verdict, judgement.reason
    if strange := [name for name, e in {**measured, **null}.items() if not math.isfinite(e.mean)]:
        verdict, null_verdict, reason = NOT_RUN, "", f"not a finite number: {', '.join(strange)}"
    elif scale == "smoke" and not claim.exact:
        verdict, null_verdict, reason = NOT_RUN, "", "smoke scale only shows that the study runs"
    run = next(iter(runs.values()))
    return Entry(
        **_said(claim, scale),
        verdict=verdict,
        null_verdict=null_verdict,
        null_reason=rule.null.reason if isinstance(rule.null, NoNull) else "",
        departures={
            key: f"{here} instead of {published}"
            for key, (here, published) in study.departures(scale).items()
        },
        rule=rule.words,
        applied=judgement.applied,
        reason=reason,
        measured={name: _printable(e) for name, e in measured.items()},
        null={name: _printable(e) for name, e in null.items()},
        study=study.name,
        settings=run.spec.config,
        seeds=list(evidence.seeds),
        runs=[one.id for one in runs.values()],
        version=run.spec.version,
        commit=run.commit,
        date=max(one.finished for one in runs.values())[:10],
        environment=run.environment,
        cpu_seconds=round(sum(one.cpu_seconds for one in runs.values()), 1),
        note=rule.note,
        change=f"{rule.change.date}: {rule.change.reason}" if rule.change else "",
    )


def entry_not_run(claim: Claim, *, scale: str, reason: str, study: type[Study] | None = None) -> Entry:
    """Return the line of a claim without a result."""
    rule = study.rule_of(claim.id) if study else None
    return Entry(
        **_said(claim, scale),
        verdict=NOT_RUN,
        rule=rule.words if rule else {},
        reason=f"{reason} (cost at paper scale: {claim.cost_paper_scale})",
        study=study.name if study else "",
        note=rule.note if rule else "",
    )


def _said(claim: Claim, scale: str) -> dict[str, Any]:
    return {
        "claim": claim.id,
        "theme": claim.theme,
        "statement": claim.statement,
        "exact": claim.exact,
        "reported": claim.reported_text,
        "scale": scale,
    }


# ---------------------------------------------------------------- summaries

SUMMARIES = tuple(
    f"{verdict}{extra}"
    for verdict in VERDICTS
    for extra in (("", f", {NOT_BEYOND} its null") if verdict != NOT_RUN else ("",))
)
"""Every answer that is counted: each verdict, alone and without exceeding its null."""


def counts(entries: Iterable[Entry]) -> dict[str, int]:
    """Number of claims by both answers, most welcome first; only what occurs.

    "Reproduced" alone means beyond its null, or that no null is possible.
    """
    tally = Counter(entry.summary for entry in entries)
    return {name: tally[name] for name in SUMMARIES if tally[name]}


def is_beyond(entry: Entry) -> bool:
    """Whether an effect appeared and its null does not explain it."""
    return entry.verdict == REPRODUCED and entry.null_verdict in (BEYOND, NO_NULL)


def versions(entries: Iterable[Entry]) -> str:
    """Versions of firstlight that made the entries, in words; empty if none ran.

    Examples
    --------
    >>> one = Entry(claim="", theme="", statement="", exact=True, reported="", verdict="", scale="", version="0.1.0")
    >>> versions([one, one])
    'as of 0.1.0'
    """
    found = sorted({entry.version for entry in entries if entry.version})
    return f"as of {', '.join(found)}" if found else ""


# ---------------------------------------------------------------- files


def record(entries: list[Entry], folder: Path, *, figures: Mapping[str, Figure] | None = None) -> list[Path]:
    """Write one JSON file per scale and theme, keeping the lines of claims that were not part of this run.

    Parameters
    ----------
    entries : list of Entry
        Judged claims.
    folder : Path
        Of the ledger.
    figures : mapping of str to Figure, optional
        By study; written as SVG beside the numbers.
    """
    written = []
    for scale, theme in sorted({(e.scale, e.theme) for e in entries}):
        path = folder / scale / f"{theme}.json"
        rows = {row["claim"]: row for row in read(path)}
        rows |= {e.claim: asdict(e) for e in entries if (e.scale, e.theme) == (scale, theme)}
        body = {"theme": theme, "scale": scale, "claims": [rows[id] for id in sorted(rows)]}
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part:
            part.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
        written.append(path)
    scales = {entry.study: entry.scale for entry in entries}
    for study, figure in (figures or {}).items():
        path = figure_file(folder, scales[study], study)
        path.parent.mkdir(parents=True, exist_ok=True)
        with whole_file(path) as part:
            part.write_text(svg(figure) + "\n")
        written.append(path)
    return written


def figure_file(folder: Path, scale: str, study: str) -> Path:
    """Where the figure of a study is kept."""
    return folder / scale / "figures" / f"{study.replace('/', '-')}.svg"


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of a ledger file; empty if there is none."""
    if not path.exists():
        return []
    try:
        rows: list[dict[str, Any]] = read_json(path)["claims"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreProblem(f"The ledger {path} is damaged ({error}). Move it away and run again.") from error
    return rows


def read_entries(path: Path) -> list[Entry]:
    """Entries of a ledger file; empty if there is none."""
    try:
        return [Entry(**row) for row in read(path)]
    except TypeError as error:
        raise StoreProblem(f"The ledger {path} is of another version ({error}). Record it again.") from error


def _printable(estimate: Estimate) -> dict[str, Any]:
    """Round to what is meaningful; JSON knows no infinities."""
    bounds = [rounded(estimate.low), rounded(estimate.high)]
    return {"mean": rounded(estimate.mean), "interval": bounds, "seeds": [rounded(v) for v in estimate.seeds]}


def rounded(value: float) -> float | str:
    """Four significant digits, counts in full, infinities as words.

    Examples
    --------
    >>> rounded(0.123456), rounded(61706.0), rounded(float("inf"))
    (0.1235, 61706, 'inf')
    """
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) >= 1e4 else float(f"{value:.4g}")
