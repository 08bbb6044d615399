"""Run the studies behind claims, once per seed, and judge."""

import dataclasses
import math
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from firstlight._internal.devices import DeviceLike, on_given_device
from firstlight._internal.errors import DataUnavailable, Diverged, InvalidInput, StoreProblem, unknown_name
from firstlight._internal.executor import keeping
from firstlight._internal.safe_text import visible
from firstlight._internal.store.runs import Run, RunSpec, Store
from firstlight.pages.figures.figure import Figure
from firstlight.training.checkpoint import load_checkpoint, save_checkpoint
from reproduce.catalogue import SCALES, Claim, Study, claims, departures, select, studies, study_of
from reproduce.entries import Entry, evidence_of, printable
from reproduce.evidence import Evidence
from reproduce.judge import NOT_RUN, identifier, judge, names_in

Listener = Callable[[str, int, int], None]

NO_NIGHT = "it has no night settings; `--scale desk` is what two cores give"


class KeptOutcomes:
    """A folder of finished tasks; what cannot be written as numbers and words is done again.

    Parameters
    ----------
    folder : Path
        Scratch folder of one run, whose name covers its settings.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def get(self, key: str) -> tuple[Any, float] | None:
        """The outcome kept under a key and the CPU seconds it cost, or None."""
        kept = load_checkpoint(self._file(key))
        return None if kept is None else (kept["outcome"], kept["cpu_seconds"])

    def put(self, key: str, outcome: Any, seconds: float) -> None:
        """Write an outcome, whole or not at all; one that is not made of results, tensors and words is left."""
        try:
            save_checkpoint(self._file(key), {"outcome": outcome, "cpu_seconds": seconds})
        except TypeError:
            return

    def _file(self, key: str) -> Path:
        return self.folder / f"{key}.safetensors"


@dataclass(frozen=True, kw_only=True)
class Finished:
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

    At night the tasks of a study are kept as they finish, so that a run that was killed goes on with the
    next of them.
    """
    one = study.at_scale(scale) if seed is None else study.at_scale(scale, seed=seed)

    def compute(scratch: Path) -> dict[str, Any]:
        with keeping(KeptOutcomes(scratch)) if scale == "night" else nullcontext():
            return dict(one.run())

    spec = RunSpec(what=f"study:{study.name}", config=one.settings)
    return store.fetch_or_run(spec, compute)


def run_seeds(study: type[Study], seeds: Iterable[int], *, scale: str, store: Store) -> Finished:
    """Run a study for several seeds; data that cannot be had, or a divergence, ends it with the reason."""
    runs: dict[int, Run] = {}
    for seed in seeds:
        try:
            runs[seed] = run_study(study, scale=scale, store=store, seed=seed)
        except (DataUnavailable, Diverged) as problem:
            return Finished(runs={}, problem=f"seed {seed}: {problem}")
    return Finished(runs=runs)


@on_given_device
def reproduce(
    what: str,
    *,
    scale: str = "smoke",
    store: Store | None = None,
    seed: int | None = None,
    n_seeds: int | None = None,
    listen: Listener = lambda name, index, total: None,
    device: DeviceLike | None = None,
) -> list[Entry]:
    """Judge every claim that `what` names.

    Parameters
    ----------
    what : str
        A claim, a theme, the beginning of claim ids, or "all".
    scale : str, default 'smoke'
        "smoke", "desk" or "night".
    store : Store, optional
        Where finished runs are kept; none is done twice.
    seed : int, optional
        First seed of every study, instead of its own.
    n_seeds : int, optional
        Number of seeds, instead of each study's own.
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
    listed = select(what)
    studies = studies_of(what, scale=scale)
    finished: dict[str, Finished] = {}
    for index, (name, study) in enumerate(studies.items()):
        listen(name, index, len(studies))
        seeds = study.seeds(scale, first=seed, count=n_seeds)
        finished[name] = run_seeds(study, seeds, scale=scale, store=store)
    return [_entry(claim, finished, scale) for claim in listed]


def studies_of(what: str, *, scale: str) -> dict[str, type[Study]]:
    """Studies that judge what `what` names, by name; at night scale only those with settings for it."""
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    named = {s.name: s for claim in select(what) if (s := study_of(claim.id))}
    return {name: s for name, s in named.items() if scale != "night" or scale in s.scales}


# ---------------------------------------------------------------- lines of the ledger


def entry_of(
    claim: Claim, study: type[Study], runs: Mapping[int, Run], evidence: Evidence, *, scale: str
) -> Entry:
    """Judge one claim from the runs of its study."""
    assert claim.rule is not None, f"{claim.id} has a study, but no rule"
    own, nulls = claim.rule.spoken_of(evidence)
    beside = [name for name in evidence.values if identifier(name) in claim.beside]
    measured, null = evidence.estimates([*own, *beside]), evidence.estimates(nulls)
    run = next(iter(runs.values()))
    return Entry(
        **_said(claim, scale),
        **_judged(claim, evidence, scale=scale),
        departures=departures(claim, run.spec.config, n_seeds=len(runs)),
        measured={name: printable(e) for name, e in measured.items()},
        null={name: printable(e) for name, e in null.items()},
        study=study.name,
        settings=run.spec.config,
        seeds=list(evidence.seeds),
        runs=[one.id for one in runs.values()],
        version=run.spec.version,
        commit=run.commit,
        date=max(one.finished for one in runs.values())[:10],
        environment=run.environment,
        cpu_seconds=round(sum(one.cpu_seconds for one in runs.values()), 3),
    )


def _judged(claim: Claim, evidence: Evidence, *, scale: str) -> dict[str, Any]:
    """Both answers with their grounds, as fields of an entry. At smoke scale only exact claims are judged."""
    assert claim.rule is not None
    judgement = judge(claim.rule, evidence, exact=claim.exact)
    verdict, null_verdict, reason = judgement.verdict, judgement.null_verdict, judgement.reason
    numbers = evidence.estimates([name for names in claim.rule.spoken_of(evidence) for name in names])
    if strange := [name for name, e in numbers.items() if not math.isfinite(e.mean)]:
        verdict, null_verdict, reason = NOT_RUN, "", f"not a finite number: {', '.join(strange)}"
    elif scale == "smoke" and not claim.exact:
        verdict, null_verdict, reason = NOT_RUN, "", "smoke scale only shows that the study runs"
    return {
        "verdict": verdict,
        "null_verdict": null_verdict,
        "null_reason": claim.no_null,
        "outcomes": {part: told.value for part, told in judgement.outcomes.items()},
        "applied": judgement.applied,
        "reason": reason,
    }


def judged_again(entry: Entry) -> Entry:
    """Return a recorded entry as the claim, the rule and the law of today judge it, without running anything.

    Every seed was recorded, so that the verdict can be had again; numbers, runs and dates stay.
    """
    claim = claims().get(entry.claim)
    if claim is None:
        return entry
    said = _said(claim, entry.scale)
    if not entry.runs or claim.rule is None:
        return dataclasses.replace(entry, **said, cpu_seconds=None)
    names = frozenset().union(*(names_in(text) for text in claim.rule.words.values()))
    return dataclasses.replace(
        entry,
        **said,
        **_judged(claim, evidence_of(entry, names), scale=entry.scale),
        departures=departures(claim, entry.settings, n_seeds=len(entry.seeds)),
        measured=_finite(entry.measured),
        null=_finite(entry.null),
        cpu_seconds=entry.cpu_seconds or None,
    )


def _finite(estimates: Mapping[str, Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
    """Recorded numbers, without the intervals of infinite width that earlier versions wrote for a single seed."""
    return {
        name: {**row, "interval": row["interval"] if len(row["seeds"]) > 1 else None}
        for name, row in estimates.items()
    }


def entry_not_run(claim: Claim, *, scale: str, reason: str = "not recorded yet") -> Entry:
    """Return the line of a claim without a result; a claim that no study can serve has its own reason."""
    study = study_of(claim.id)
    words = f"{claim.absent or reason} (cost at paper scale: {claim.cost_paper_scale})"
    return Entry(**_said(claim, scale), verdict=NOT_RUN, reason=words, study=study.name if study else "")


def _said(claim: Claim, scale: str) -> dict[str, Any]:
    return {
        "claim": claim.id,
        "theme": claim.theme,
        "statement": claim.statement,
        "exact": claim.exact,
        "reported": claim.reported_text,
        "scale": scale,
        "rule": claim.rule.words if claim.rule else {},
        "note": claim.note,
        "change": claim.change,
    }


def _entry(claim: Claim, finished: dict[str, Finished], scale: str) -> Entry:
    study: Any = study_of(claim.id)
    if study is None or study.name not in finished:
        return entry_not_run(claim, scale=scale, reason=NO_NIGHT)
    done = finished[study.name]
    if done.problem:
        return entry_not_run(claim, scale=scale, reason=done.problem)
    return entry_of(claim, study, done.runs, done.evidence, scale=scale)


def study_figures(entries: Iterable[Entry], store: Store) -> dict[str, Figure]:
    """Draw the figures of all studies whose runs are at hand; runs stored elsewhere are left out."""
    figures: dict[str, Figure] = {}
    for entry in entries:
        if entry.study not in studies() or not entry.runs or entry.study in figures:
            continue
        try:
            runs = {seed: store.load(id) for seed, id in zip(entry.seeds, entry.runs, strict=True)}
        except InvalidInput:
            continue
        except StoreProblem as error:
            print(visible(f"The figure of {entry.study} is left out. {error}"), file=sys.stderr)
            continue
        figures[entry.study] = studies()[entry.study].figure(Finished(runs=runs).evidence)
    return figures
