"""What the ledger records: reported against measured, claim by claim, with all that is needed to check a verdict."""

import json
import math
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from scipy.stats import binom
from torch import Tensor

from firstlight._internal.errors import StoreProblem
from firstlight._internal.files import whole_file
from firstlight._internal.untrusted_files import read_json
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.svg import svg
from reproduce.evidence import Estimate, Evidence, Point
from reproduce.judge import BEYOND, NO_NULL, NOT_BEYOND, NOT_RUN, REPRODUCED, VERDICTS, identifier


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One line of the ledger.

    Parameters
    ----------
    claim, theme, statement, exact, reported : str or bool
        As in claims.yaml.
    verdict : str
        Whether the effect appears, one of :data:`reproduce.judge.VERDICTS`.
    null_verdict : str
        Whether it exceeds its null, one of :data:`reproduce.judge.NULL_VERDICTS`; empty if nothing was judged.
    null_reason : str
        Why there is no null, if so.
    scale : str
        At which the study ran.
    departures : dict of str to str
        Published settings, and what the study had instead.
    rule : dict of str to str
        The rule as executed.
    outcomes : dict of str to str
        What the evidence says about every part of the rule, also about those that did not decide.
    applied : str
        The part of it that decided.
    reason : str
        Why the verdict is not the plain one.
    measured, null : dict of str to dict
        Mean, interval and the value of each seed, by name. One seed alone has no interval: None.
    version, commit, date : str
        Of firstlight, and the day when the numbers were measured. An old entry is no wrong one.
    study, settings, seeds, runs, environment, cpu_seconds
        What made the numbers, where, and at what cost; a cost that is not known is None.
    note : str
        Said beside the verdict.
    change : str
        When and why the rule was changed after the first ledger, if it was.
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
    outcomes: dict[str, str] = field(default_factory=dict)
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
    cpu_seconds: float | None = None
    note: str = ""
    change: str = ""

    @property
    def summary(self) -> str:
        """Both answers in a few words, as counted in summaries."""
        if self.verdict != NOT_RUN and self.null_verdict == NOT_BEYOND:
            return f"{self.verdict}, not beyond its null"
        return self.verdict


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


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Claims counted, exact relations apart from effects: that algebra holds is no evidence for an effect.

    Parameters
    ----------
    n_exact, n_holding : int
        Exact relations, and those that hold.
    effects : dict of str to int
        The other claims by both answers, as :func:`counts` gives them.
    """

    n_exact: int
    n_holding: int
    effects: dict[str, int]

    @classmethod
    def of(cls, entries: Iterable[Entry]) -> "Tally":
        """Count."""
        listed = list(entries)
        exact = [entry for entry in listed if entry.exact]
        return cls(
            n_exact=len(exact),
            n_holding=sum(entry.verdict == REPRODUCED for entry in exact),
            effects=counts(entry for entry in listed if not entry.exact),
        )

    @property
    def exact(self) -> str:
        """The exact relations in words; empty if there are none."""
        return f"{self.n_holding} of {self.n_exact} hold" if self.n_exact else ""

    def __str__(self) -> str:
        """Both in words."""
        effects = ", ".join(f"{number} {name}" for name, number in self.effects.items())
        n_effects = sum(self.effects.values())
        parts = [f"exact relations: {self.exact}"] if self.exact else []
        parts += [f"{n_effects} effects: {effects}"] if effects else []
        return "; ".join(parts)


def largest(entries: Iterable[Entry]) -> Entry:
    """Choose the entry of one claim that is counted: the last that was judged, the scales being in rising order."""
    listed = list(entries)
    judged = [entry for entry in listed if entry.verdict != NOT_RUN]
    ran = [entry for entry in listed if entry.runs]
    return (judged or ran or listed)[-1]


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


def evidence_of(entry: Entry, names: Collection[str]) -> Evidence:
    """Return what an entry recorded as evidence again: four digits of every seed.

    Parameters
    ----------
    entry : Entry
        With measurements.
    names : collection of str
        Identifiers of measurements: a recorded label is "name, point", and both may hold commas.
    """
    values: dict[str, dict[Point | None, Tensor]] = {}
    for label, row in {**entry.measured, **entry.null}.items():
        parts = label.split(", ")
        splits = [(", ".join(parts[:i]), ", ".join(parts[i:])) for i in range(len(parts), 0, -1)]
        name, point = next(((n, p) for n, p in splits if identifier(n) in names), splits[0])
        seeds = torch.tensor([float(value) for value in row["seeds"]], dtype=torch.float64)
        values.setdefault(name, {})[_point(point)] = seeds
    return Evidence(seeds=tuple(entry.seeds), values=values)


def _point(word: str) -> Point | None:
    for kind in (int, float):
        try:
            return kind(word)
        except ValueError:
            continue
    return word or None


def printable(estimate: Estimate) -> dict[str, Any]:
    """Round to what is meaningful; one seed has no interval."""
    bounds = None if len(estimate.seeds) == 1 else [rounded(estimate.low), rounded(estimate.high)]
    return {"mean": rounded(estimate.mean), "interval": bounds, "seeds": [rounded(v) for v in estimate.seeds]}


def rounded(value: float) -> float | str:
    """Four significant digits, counts in full; JSON knows no infinities, which are words.

    Examples
    --------
    >>> rounded(0.123456), rounded(61706.0), rounded(float("inf"))
    (0.1235, 61706, 'inf')
    """
    if not math.isfinite(value):
        return str(value)
    return int(value) if value.is_integer() and abs(value) >= 1e4 else float(f"{value:.4g}")


# ---------------------------------------------------------------- agreement of two ledgers

LEVEL = 0.05
"""Share of numbers that chance alone puts outside their interval."""


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One number, or one verdict, that differs from the recorded one.

    Parameters
    ----------
    claim, what : str
        The claim, and the name of the number or "verdict".
    recorded, here : str
        Both values; that of a number with the interval in which a repetition should lie.
    """

    claim: str
    what: str
    recorded: str
    here: str


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Two ledgers compared, claim by claim and number by number.

    Parameters
    ----------
    n_claims, n_numbers : int
        Claims that both ledgers judge; numbers of which both have a mean and the recorded one a spread.
    verdicts, numbers : tuple of Disagreement
        What differs. Of the numbers, one in twenty may do so by chance if the seeds are others.
    """

    n_claims: int
    n_numbers: int
    verdicts: tuple[Disagreement, ...]
    numbers: tuple[Disagreement, ...]

    @property
    def is_more_than_chance(self) -> bool:
        """Whether more numbers lie outside than chance gives in 95 % of comparisons."""
        return self.n_numbers > 0 and float(binom.sf(len(self.numbers) - 1, self.n_numbers, LEVEL)) <= LEVEL


def agreement(recorded: Sequence[Entry], here: Sequence[Entry]) -> Agreement:
    r"""Compare the claims that two ledgers of one scale both judge.

    A mean of m seeds should lie in :math:`\bar x \pm t_{n-1} s \sqrt{1/n + 1/m}`, Student's interval for the mean of
    a repetition, given the n recorded seeds. The same seeds on another processor lie well inside.

    Parameters
    ----------
    recorded, here : sequence of Entry
        The ledger to compare with, and the one in question.
    """
    others = {entry.claim: entry for entry in here if entry.verdict != NOT_RUN}
    pairs = [
        (e, others[e.claim])
        for e in recorded
        if e.verdict != NOT_RUN and e.claim in others and e.scale == others[e.claim].scale
    ]
    verdicts = tuple(
        Disagreement(claim=old.claim, what="verdict", recorded=old.summary, here=new.summary)
        for old, new in pairs
        if old.summary != new.summary
    )
    judged = [
        (old.claim, name, estimate, {**new.measured, **new.null}[name])
        for old, new in pairs
        for name, estimate in {**old.measured, **old.null}.items()
        if name in new.measured or name in new.null
    ]
    judged = [row for row in judged if len(row[2]["seeds"]) > 1 and math.isfinite(float(row[3]["mean"]))]
    outside = []
    for claim, name, old, new in judged:
        low, high = repetition_interval(old["seeds"], old["interval"], m=len(new["seeds"]))
        if not low <= float(new["mean"]) <= high:
            outside.append(
                Disagreement(
                    claim=claim,
                    what=name,
                    recorded=f"{low:.4g} to {high:.4g}",
                    here=f"{float(new['mean']):.4g}",
                )
            )
    return Agreement(n_claims=len(pairs), n_numbers=len(judged), verdicts=verdicts, numbers=tuple(outside))


def repetition_interval(
    seeds: Sequence[float | str], interval: Sequence[float | str], *, m: int
) -> tuple[float, float]:
    """Return the interval for the mean of `m` further seeds, from that of the mean of those recorded.

    Numbers are recorded with four digits, so that the interval is never narrower than their rounding.

    Examples
    --------
    >>> low, high = repetition_interval([1.0, 2.0, 3.0], [-0.484, 4.484], m=3)
    >>> round(low, 2), round(high, 2)
    (-1.51, 5.51)
    """
    low, high = (float(bound) for bound in interval)
    middle = (low + high) / 2
    rounding = 5e-4 * max(abs(float(value)) for value in seeds)
    half = max((high - low) / 2 * math.sqrt(1 + len(seeds) / m), rounding)
    return middle - half, middle + half
