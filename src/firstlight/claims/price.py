"""What a study costs before it runs: CPU time and memory, from rehearsals and a model that is linear in its lengths."""

import dataclasses
import json
import math
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight.claims.catalogue import THEMES, all_claims
from firstlight.claims.ledger import Entry, entry_not_run, read_entries, record
from firstlight.claims.lengths import LENGTHS, Length
from firstlight.claims.rehearsal import Spent, rehearse
from firstlight.claims.reproduce import spec_of, studies_of
from firstlight.claims.study import STUDIES, Study
from firstlight.core.environment import processor
from firstlight.core.errors import FirstlightError
from firstlight.core.files import whole_file
from firstlight.core.foreign import read_json
from firstlight.core.parallel import default_jobs
from firstlight.store import RunSpec, Store

NOISE = 0.05
"""Least relative error of a measured time: what two equal runs differ by may be less by luck."""

BEYOND = 1.5
"""Factor by which costs may depart from the model either way, on top of errors of measurement."""

MODEL = 2
"""Version of the cost model, which stored prices are named by."""

RAN = "not rehearsed: it ran"
"""Remark on a study whose cost is known from its runs alone."""


@dataclass(frozen=True, kw_only=True)
class Price:
    """Cost of one seed of a study.

    Parameters
    ----------
    study : str
        Its name.
    cpu_seconds : float
        Of one seed on one thread; NaN if it could not be rehearsed.
    low_seconds, high_seconds : float
        Where it lies if the times of the rehearsals are wrong by as much as two equal ones differ, and the model by
        a factor of `BEYOND`.
    memory_bytes : float
        At its peak, in each process.
    rehearsal_seconds : float
        CPU time that finding this out took.
    stops_early : bool
        Whether the study may end its trainings before the last step: the price is then a bound.
    problem : str
        Why there is no price, if so.
    """

    study: str
    cpu_seconds: float = math.nan
    low_seconds: float = math.nan
    high_seconds: float = math.nan
    memory_bytes: float = math.nan
    rehearsal_seconds: float = 0.0
    stops_early: bool = False
    problem: str = ""


def prices(what: str, *, scale: str = "night", store: Store | None = None) -> dict[str, Price]:
    """Price every study that `what` names, by name.

    Parameters
    ----------
    what : str
        As for :func:`firstlight.claims.reproduce`.
    scale : str, default 'night'
        Whose settings are priced.
    store : Store, optional
        Prices are kept there, so that a run that goes on after an interruption rehearses nothing twice.
    """
    store = store or Store()
    return {
        name: price(study, scale=scale, store=store) for name, study in studies_of(what, scale=scale).items()
    }


def price(study: type[Study], *, scale: str, store: Store) -> Price:
    """Price one seed of a study, or fetch its price."""
    if study.name not in LENGTHS:
        return Price(study=study.name, problem="no short run of it says what a long one costs")
    lengths = LENGTHS[study.name]
    config = {
        "settings": dataclasses.asdict(study.config(scale)),
        "lengths": [dataclasses.asdict(length) for length in lengths],
        "processor": processor(),
        "model": MODEL,
    }
    spec = RunSpec(what=f"price:{study.name}", config=config, code=study.code())
    try:
        found = store.fetch_or_run(spec, lambda scratch: dataclasses.asdict(_priced(study, scale, lengths)))
    except FirstlightError as problem:
        return Price(study=study.name, problem=str(problem))
    return Price(**found.result)


def _priced(study: type[Study], scale: str, lengths: Iterable[Length]) -> Price:
    """Rehearse at the shortest settings, once more with each length doubled, and at the shortest again."""
    cfg = study.config(scale)
    cut = [length for length in lengths if length.ratio(cfg) > 1]
    short = {name: value for length in cut for name, value in length.at(cfg, 1).items()}
    base = rehearse(study, scale=scale, settings=short)
    doubled = [rehearse(study, scale=scale, settings={**short, **length.at(cfg, 2)}) for length in cut]
    again = rehearse(study, scale=scale, settings=short)
    mean = (base.cpu_seconds + again.cpu_seconds) / 2
    noise = max(abs(base.cpu_seconds - again.cpu_seconds) / mean, NOISE)
    pairs = list(zip(cut, doubled, strict=True))
    times = [(length, spent.cpu_seconds / mean) for length, spent in pairs]
    low, cost, high = (mean * extrapolated(cfg, [(i, t + e * noise) for i, t in times]) for e in (-1, 0, 1))
    return Price(
        study=study.name,
        cpu_seconds=cost,
        low_seconds=low / BEYOND,
        high_seconds=high * BEYOND,
        memory_bytes=base.memory_bytes + sum(_further_memory(cfg, base, pair) for pair in pairs),
        rehearsal_seconds=2 * mean + sum(one.cpu_seconds for one in doubled),
        stops_early=getattr(getattr(cfg, "base", None), "stop_below", None) is not None,
    )


def extrapolated(cfg: Any, doubled: list[tuple[Length, float]]) -> float:
    r"""How many times the shortest run costs at full length.

    .. math:: 1 - \sum_g s_g + \sum_g s_g \prod_{i \in g} (1 + \varphi_i x_i)

    where :math:`1 + x_i` is how many times longer length i is in full, :math:`s_g` the share of the shortest run that
    group g takes and :math:`\varphi_i` the share of its groups that grows with length i; both are measured by the runs
    with one length doubled. Exact if the cost of each group is a product of linear terms.

    Parameters
    ----------
    cfg : object
        Settings at full length.
    doubled : list of tuple of Length and float
        Each length, and the cost of the run in which it is doubled, in units of the shortest run.
    """
    grown = {length: min(max((cost - 1) / (length.growth(cfg) - 1), 0.0), 1.0) for length, cost in doubled}
    groups = sorted({group for length in grown for group in length.groups})
    shares = {
        g: max((grown[length] for length in grown if length.groups == (g,)), default=0.0) for g in groups
    }
    whole = max(sum(shares.values()), 1.0)  # rounding of short times may give more than there is
    total = max(1.0 - sum(shares.values()), 0.0)
    for group, share in shares.items():
        factor = 1.0
        for length, growth in grown.items():
            if group in length.groups:
                own = sum(shares[g] for g in length.groups)
                factor *= 1 + (min(growth / own, 1.0) if own else 0.0) * (length.ratio(cfg) - 1)
        total += share / whole * factor
    return total


def _further_memory(cfg: Any, base: Spent, pair: tuple[Length, Spent]) -> float:
    length, spent = pair
    if not length.fills_memory:
        return 0.0
    grown = max(spent.memory_bytes - base.memory_bytes, 0.0) / (length.growth(cfg) - 1)
    return grown * (length.ratio(cfg) - 1)


# ---------------------------------------------------------------- files


def price_file(folder: Path, scale: str) -> Path:
    """Where the prices of a scale are kept in the folder of the ledger."""
    return folder / f"{scale}-prices.json"


def record_prices(found: Mapping[str, Price], folder: Path, *, scale: str) -> Path:
    """Write prices beside the ledger of their scale, keeping those of other studies, and return the file.

    Claims whose study has a price and no run in that ledger are entered as not run, with the price as the reason.

    Parameters
    ----------
    found : mapping of str to Price
        By study.
    folder : Path
        Of the ledger.
    scale : str
        Of the settings that were priced.
    """
    path = price_file(folder, scale)
    rows = {row["study"]: row for row in _recorded(path)} | {name: _row(one) for name, one in found.items()}
    path.parent.mkdir(parents=True, exist_ok=True)
    body = {"processor": processor(), "prices": [rows[name] for name in sorted(rows)]}
    with whole_file(path) as part:
        part.write_text(json.dumps(body, indent=1) + "\n")
    record(_not_run(found, folder, scale), folder)
    return path


def _not_run(found: Mapping[str, Price], folder: Path, scale: str) -> list[Entry]:
    """Entries of claims that were priced and have not run."""
    ran = {e.claim for theme in THEMES for e in read_entries(folder / scale / f"{theme}.json") if e.runs}
    entries = []
    for name, one in found.items():
        cost = f"priced at {_hours(_row(one))} CPU hours and {one.memory_bytes / 1e9:.2g} GB a seed"
        reason = one.problem or cost
        for claim in STUDIES[name].claims():
            if claim not in ran:
                entries.append(
                    entry_not_run(all_claims()[claim], scale=scale, reason=reason, study=STUDIES[name])
                )
    return entries


def _row(one: Price) -> dict[str, Any]:
    """A price in digits that mean something; JSON knows no NaN."""
    row = dataclasses.asdict(one)
    for name in ("cpu_seconds", "low_seconds", "high_seconds", "memory_bytes", "rehearsal_seconds"):
        row[name] = float(f"{row[name]:.2g}") if math.isfinite(row[name]) else None
    return row


def _recorded(path: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = read_json(path)["prices"] if path.exists() else []
    return rows


def price_rows(folder: Path, *, scale: str = "night") -> list[tuple[str, ...]]:
    """Rows of a table: study, CPU hours a seed with their range, memory, hours it took, seeds recorded, remark.

    Parameters
    ----------
    folder : Path
        Of the ledger, with the prices that `firstlight claims prices` recorded there.
    scale : str, default 'night'
        Of the settings that were priced.
    """
    took: dict[str, tuple[float, int]] = {}
    for theme in THEMES:
        for entry in read_entries(folder / scale / f"{theme}.json"):
            if entry.runs:
                took[entry.study] = (entry.cpu_seconds / len(entry.seeds), len(entry.seeds))
    priced = {row["study"]: row for row in _recorded(price_file(folder, scale))}
    unpriced = {name: _row(Price(study=name, problem=RAN)) for name in took if name not in priced}
    rows: list[tuple[str, ...]] = []
    for name, row in sorted((priced | unpriced).items()):
        seconds, seeds = took.get(name, (math.nan, 0))
        rows.append(
            (
                name,
                _hours(row),
                _digits(row["memory_bytes"], 1e9, " GB"),
                _digits(seconds, 3600, "") if seeds else "",
                str(seeds),
                row["problem"] or ("at most: trainings may stop early" if row["stops_early"] else ""),
            )
        )
    return rows


def _hours(row: Mapping[str, Any]) -> str:
    if row["cpu_seconds"] is None:
        return "unknown"
    cost, low, high = (_digits(row[f"{name}_seconds"], 3600, "") for name in ("cpu", "low", "high"))
    return f"{cost} ({low} to {high})"


def _digits(value: float | None, unit: float, name: str) -> str:
    return "unknown" if value is None else f"{value / unit:.2g}{name}"


# ---------------------------------------------------------------- time left


class Schedule:
    """What is still to do of a long reproduction, and how long that will take.

    Parameters
    ----------
    prices : mapping of str to Price
        By study.
    waiting : list of tuple of str and int
        Study and seed of every run that is not in the store.
    """

    def __init__(self, prices: Mapping[str, Price], waiting: list[tuple[str, int]]) -> None:
        self.prices, self.waiting = prices, list(waiting)
        self.started = self.begun = time.monotonic()
        self.running: tuple[str, int] | None = None
        self.done_cost = self.done_seconds = 0.0

    @classmethod
    def of(
        cls,
        what: str,
        prices: Mapping[str, Price],
        *,
        scale: str,
        seed: int | None,
        n_seeds: int | None,
        store: Store,
    ) -> "Schedule":
        """Everything that `what` names and that the store does not hold yet."""
        waiting = [
            (name, one)
            for name, study in studies_of(what, scale=scale).items()
            for one in study.seeds(scale, first=seed, count=n_seeds)
            if spec_of(study, scale=scale, seed=one) not in store
        ]
        return cls(prices, waiting)

    @property
    def cpu_seconds(self) -> float:
        """Priced cost of all runs that have not started; those without a price count nothing."""
        return sum(self._cost(run) for run in self.waiting)

    @property
    def range_seconds(self) -> tuple[float, float]:
        """Least and most that these runs may cost."""
        ranges = [
            (one.low_seconds, one.high_seconds)
            for name, _ in self.waiting
            if (one := self.prices.get(name)) and math.isfinite(one.high_seconds)
        ]
        return sum(low for low, _ in ranges), sum(high for _, high in ranges)

    def start(self, name: str, seed: int) -> None:
        """Note that one run begins, and that the one before it is done."""
        now = time.monotonic()
        if self.running is not None:
            self.done_cost += self._cost(self.running)
            self.done_seconds += now - self.begun
        self.running = (name, seed) if (name, seed) in self.waiting else None
        self.waiting = [run for run in self.waiting if run != (name, seed)]
        self.begun = now

    @property
    def seconds_left(self) -> float:
        """On the clock, at the speed of what is done; before that, as if all cores were used."""
        pace = self.done_seconds / self.done_cost if self.done_cost else 1 / default_jobs()
        running = 0.0
        if self.running is not None:
            running = max(self._cost(self.running) * pace - (time.monotonic() - self.begun), 0.0)
        return self.cpu_seconds * pace + running

    def _cost(self, run: tuple[str, int]) -> float:
        cost = self.prices[run[0]].cpu_seconds if run[0] in self.prices else math.nan
        return cost if math.isfinite(cost) else 0.0


def in_words(seconds: float) -> str:
    """A duration as people say it.

    Examples
    --------
    >>> in_words(40), in_words(1500), in_words(9000)
    ('40 s', '25 min', '2.5 h')
    """
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"
