"""Verdicts: reported against measured, claim by claim."""

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from firstlight.claims.catalogue import Claim
from firstlight.claims.study import Rule
from firstlight.core.errors import StoreProblem
from firstlight.core.files import whole_file
from firstlight.store import Run

VERDICTS = ("reproduced", "partly", "not reproduced", "not run")
"""Every verdict that the ledger may give on a claim."""


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the ledger."""

    claim: str
    theme: str
    statement: str
    exact: bool
    reported: str
    verdict: str
    scale: str
    rule: str
    measured: dict[str, float | str] = field(default_factory=dict)
    spread: dict[str, float | str] = field(default_factory=dict)
    null: dict[str, float | str] = field(default_factory=dict)
    note: str = ""
    study: str = ""
    config: dict[str, Any] = field(default_factory=dict)
    run: str = ""
    commit: str = ""
    cpu_seconds: float = 0.0


def judge(claim: Claim, rule: Rule, result: Any, *, scale: str) -> tuple[str, str]:
    """Return verdict and note. At smoke scale only exact claims are judged."""
    measured = rule.measured(result)
    strange = [name for name, value in measured.items() if not math.isfinite(value)]
    if strange:
        return "not run", f"{', '.join(strange)} is not a finite number"
    if scale == "smoke" and not claim.exact:
        return "not run", "smoke scale only shows that the study runs"
    if rule.reproduced(result):
        return "reproduced", rule.note
    if rule.partly is not None and rule.partly(result):
        return "partly", rule.note
    return "not reproduced", rule.note


def entry_of(claim: Claim, rule: Rule, run: Run, *, scale: str, study: str) -> Entry:
    """Judge one claim from a stored run."""
    result = run.result
    verdict, note = judge(claim, rule, result, scale=scale)
    return Entry(
        claim=claim.id,
        theme=claim.theme,
        statement=claim.statement,
        exact=claim.exact,
        reported=claim.reported_text,
        verdict=verdict,
        scale=scale,
        rule=f"{claim.check['metric']}: {claim.check['reproduced_if']}",
        measured=_printable(rule.measured(result)),
        spread=_printable(rule.spread(result)) if rule.spread else {},
        null=_printable(rule.null(result)) if rule.null else {},
        note=note,
        study=study,
        config=run.spec.config,
        run=run.id,
        commit=run.commit,
        cpu_seconds=run.cpu_seconds,
    )


def entry_not_run(claim: Claim, *, scale: str, note: str, study: str = "") -> Entry:
    """Line for a claim without a result."""
    return Entry(
        claim=claim.id,
        theme=claim.theme,
        statement=claim.statement,
        exact=claim.exact,
        reported=claim.reported_text,
        verdict="not run",
        scale=scale,
        rule=f"{claim.check['metric']}: {claim.check['reproduced_if']}",
        note=f"{note} (cost at paper scale: {claim.cost_paper_scale})",
        study=study,
    )


def record(entries: list[Entry], folder: Path) -> list[Path]:
    """Write one JSON file per theme, keeping the lines of claims that were not part of this run."""
    written = []
    for theme in sorted({e.theme for e in entries}):
        path = folder / f"{theme}.json"
        rows = {row["claim"]: row for row in read(path)}
        rows |= {e.claim: asdict(e) for e in entries if e.theme == theme}
        body = {"theme": theme, "claims": [rows[id] for id in sorted(rows)]}
        with whole_file(path) as part:
            part.write_text(json.dumps(body, indent=1, ensure_ascii=False) + "\n")
        written.append(path)
    return written


def read(path: Path) -> list[dict[str, Any]]:
    """Rows of a ledger file; empty if there is none."""
    if not path.exists():
        return []
    try:
        rows: list[dict[str, Any]] = json.loads(path.read_text())["claims"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StoreProblem(f"The ledger {path} is damaged ({error}). Move it away and run again.") from error
    return rows


def _printable(numbers: dict[str, float]) -> dict[str, float | str]:
    """Round to what is meaningful, counts to nothing; JSON knows no infinities.

    Examples
    --------
    >>> _printable({"error": 0.123456, "parameters": 61706.0, "norm": float("inf")})
    {'error': 0.1235, 'parameters': 61706, 'norm': 'inf'}
    """
    return {k: _rounded(float(v)) if math.isfinite(v) else str(v) for k, v in numbers.items()}


def _rounded(value: float) -> float:
    return int(value) if value.is_integer() and abs(value) >= 1e4 else float(f"{value:.4g}")
