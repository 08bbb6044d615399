"""Run the studies behind claims, once each, and judge."""

import dataclasses
from collections.abc import Callable
from typing import Any

from firstlight.claims.catalogue import select
from firstlight.claims.ledger import Entry, entry_not_run, entry_of
from firstlight.claims.study import ABSENT, SCALES, Study, study_of
from firstlight.core.errors import DataUnavailable, Diverged, unknown_name
from firstlight.store import Run, RunSpec, Store

Listener = Callable[[str, int, int], None]


def run_study(study: Study, *, scale: str, store: Store, seed: int | None = None) -> Run:
    """Fetch or do one study. Its name in the store depends on its settings and on its own source."""
    cfg = study.config(scale, seed=seed)
    spec = RunSpec(what=f"study:{study.name}", config=_plain(cfg), code=study.code)
    return store.fetch_or_run(spec, lambda scratch: study.body.run(cfg))


def reproduce(
    what: str,
    *,
    scale: str = "smoke",
    store: Store | None = None,
    seed: int | None = None,
    listen: Listener = lambda name, index, total: None,
) -> list[Entry]:
    """Judge every claim that `what` names.

    Parameters
    ----------
    what : str
        A claim, a theme, the beginning of claim ids, or "all".
    scale : str, default 'smoke'
        "smoke", "desk" or "paper".
    store : Store, optional
        Where finished studies lie; none is run twice.
    seed : int, optional
        Replaces the seed of every study.
    listen : Listener
        Told the name, index and number of studies before each of them starts.
    """
    if scale not in SCALES:
        raise unknown_name("scale", scale, SCALES)
    store = store or Store()
    claims = select(what)
    studies = {s.name: s for c in claims if (s := study_of(c.id))}
    runs: dict[str, Run | str] = {}
    for index, (name, study) in enumerate(studies.items()):
        listen(name, index, len(studies))
        try:
            runs[name] = run_study(study, scale=scale, store=store, seed=seed)
        except (DataUnavailable, Diverged) as problem:
            runs[name] = str(problem)
    entries = []
    for claim in claims:
        found = study_of(claim.id)
        if found is None:
            reason = ABSENT.get(claim.id, "no study serves this claim yet")
            entries.append(entry_not_run(claim, scale=scale, note=reason))
        elif isinstance(run := runs[found.name], str):
            entries.append(entry_not_run(claim, scale=scale, note=run, study=found.name))
        else:
            rule = found.body.rules[claim.id]
            entries.append(entry_of(claim, rule, run, scale=scale, study=found.name))
    return entries


def _plain(cfg: Any) -> dict[str, Any]:
    return dataclasses.asdict(cfg)
