"""Run the studies behind claims, once per seed, and judge."""

import dataclasses
import time
from collections.abc import Callable, Iterable
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight._internal.devices import DeviceLike, on_given_device
from firstlight._internal.errors import DataUnavailable, Diverged, InvalidInput, StoreProblem, unknown_name
from firstlight._internal.executor import keeping
from firstlight._internal.store.runs import Run, RunSpec, Store
from firstlight.claims.catalogue import Claim, all_claims, select
from firstlight.claims.evidence import Evidence
from firstlight.claims.kept import KeptOutcomes
from firstlight.claims.ledger import Entry, entry_not_run, entry_of
from firstlight.claims.rules import INCONCLUSIVE, judge
from firstlight.claims.study import ABSENT, SCALES, Study, study_of
from firstlight.pages.figures.figure import Figure

Listener = Callable[[str, int, int], None]
LONG = ("night", "paper")
"""Scales at which one seed may take hours."""

MOST_SEEDS = 30
"""Where adding seeds ends even if the budget has not: an interval shrinks no further than its root."""


NO_NIGHT = "it has no night settings; `--scale desk` is what two cores give"


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of one study.

    Parameters
    ----------
    runs : dict of int to Run
        Finished runs by seed.
    problem : str
        Why there is none, if so.
    """

    runs: dict[int, Run]
    problem: str = ""

    @property
    def evidence(self) -> Evidence:
        """Measurements over the seeds."""
        return Evidence.of({seed: run.result for seed, run in self.runs.items()})


def run_study(study: type[Study], *, scale: str, store: Store, seed: int | None = None) -> Run:
    """Fetch or do one study for one seed. Its name covers its settings and the version of firstlight.

    At the long scales the tasks of a study are kept as they finish, so that a run that was killed goes on with the
    next of them.
    """
    cfg = study.config(scale, seed=seed)

    def compute(scratch: Path) -> dict[str, Any]:
        with keeping(KeptOutcomes(scratch)) if scale in LONG else nullcontext():
            return dict(study.run(cfg))

    spec = RunSpec(what=f"study:{study.name}", config=dataclasses.asdict(cfg))
    return store.fetch_or_run(spec, compute)


def run_seeds(
    study: type[Study],
    seeds: Iterable[int],
    *,
    scale: str,
    store: Store,
) -> Outcome:
    """Run a study for several seeds; data that cannot be had, or a divergence, ends it with the reason."""
    runs: dict[int, Run] = {}
    for seed in seeds:
        try:
            runs[seed] = run_study(study, scale=scale, store=store, seed=seed)
        except (DataUnavailable, Diverged) as problem:
            return Outcome(runs={}, problem=f"seed {seed}: {problem}")
    return Outcome(runs=runs)


@on_given_device
def reproduce(
    what: str,
    *,
    scale: str = "smoke",
    store: Store | None = None,
    seed: int | None = None,
    n_seeds: int | None = None,
    budget: float = 0.0,
    listen: Listener = lambda name, index, total: None,
    device: DeviceLike | None = None,
) -> list[Entry]:
    """Judge every claim that `what` names.

    Parameters
    ----------
    what : str
        A claim, a theme, the beginning of claim ids, or "all".
    scale : str, default 'smoke'
        "smoke", "desk", "night" or "paper".
    store : Store, optional
        Where finished runs are kept; none is done twice.
    seed : int, optional
        First seed of every study, instead of its own.
    n_seeds : int, optional
        Number of seeds, instead of each study's own.
    budget : float, default 0.0
        Seconds to spend on further seeds for claims that are inconclusive.
    listen : callable
        Told the name, index and number of studies before each of them starts.
    device : str or torch.device, optional
        Where to compute: "auto", "cpu", "cuda" or "mps"; by default as ``firstlight.computing_on`` says, else
        on the CPU.

    Notes
    -----
    At night scale only studies with settings for it run: the others are the same at desk scale.
    """
    store = store or Store()
    claims = select(what)
    studies = studies_of(what, scale=scale)
    outcomes: dict[str, Outcome] = {}
    for index, (name, study) in enumerate(studies.items()):
        listen(name, index, len(studies))
        seeds = study.seeds(scale, first=seed, count=n_seeds)
        outcomes[name] = run_seeds(study, seeds, scale=scale, store=store)
    ends = time.monotonic() + budget
    for name, study in studies.items():
        outcomes[name] = _until_decided(study, outcomes[name], claims, scale=scale, store=store, ends=ends)
    return [_entry(claim, outcomes, scale) for claim in claims]


def studies_of(what: str, *, scale: str) -> dict[str, type[Study]]:
    """Studies that judge what `what` names, by name; at night scale only those with settings for it."""
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    named = {s.name: s for claim in select(what) if (s := study_of(claim.id))}
    return {name: s for name, s in named.items() if scale != "night" or scale in s.scales}


def _until_decided(
    study: type[Study], outcome: Outcome, claims: list[Claim], *, scale: str, store: Store, ends: float
) -> Outcome:
    """Add seeds while a claim is inconclusive and there is time."""
    wanted = {claim.id for claim in claims}
    while outcome.runs and len(outcome.runs) < MOST_SEEDS and time.monotonic() < ends:
        verdicts = {
            judge(rule, outcome.evidence, exact=all_claims()[rule.claim].exact).verdict
            for rule in study.rules
            if rule.claim in wanted
        }
        if INCONCLUSIVE not in verdicts:
            break
        seeds = [*outcome.runs, max(outcome.runs) + 1]
        outcome = run_seeds(study, seeds, scale=scale, store=store)
    return outcome


def _entry(claim: Claim, outcomes: dict[str, Outcome], scale: str) -> Entry:
    study: Any = study_of(claim.id)
    if study is None:
        return entry_not_run(
            claim, scale=scale, reason=ABSENT.get(claim.id, "no study judges this claim yet")
        )
    if study.name not in outcomes:
        return entry_not_run(claim, scale=scale, reason=NO_NIGHT, study=study)
    outcome = outcomes[study.name]
    if outcome.problem:
        return entry_not_run(claim, scale=scale, reason=outcome.problem, study=study)
    return entry_of(claim, study, outcome.runs, outcome.evidence, scale=scale)


def study_figures(entries: Iterable[Entry], store: Store) -> dict[str, Figure]:
    """Draw the figures of all studies whose runs are at hand; runs stored elsewhere are left out."""
    figures: dict[str, Figure] = {}
    for entry in entries:
        study = study_of(entry.claim)
        if study is None or not entry.runs or study.name in figures:
            continue
        try:
            runs = {seed: store.load(id) for seed, id in zip(entry.seeds, entry.runs, strict=True)}
        except (StoreProblem, InvalidInput):
            continue
        figures[study.name] = study.figure(Outcome(runs=runs).evidence)
    return figures
