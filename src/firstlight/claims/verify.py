"""Does changed code still give the recorded numbers? Run one seed of each stale entry again and compare."""

import dataclasses
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from firstlight.claims.evidence import Evidence
from firstlight.claims.ledger import Entry, rounded
from firstlight.claims.reproduce import run_study
from firstlight.claims.stale import CODE, staleness
from firstlight.claims.study import study_of
from firstlight.store import Run, Store


@dataclass(frozen=True, kw_only=True)
class Verification:
    """What running one seed again says about an entry.

    Parameters
    ----------
    entry : Entry
        With the present code as ``verified`` if all numbers came out again; else as it was.
    differences : tuple of str
        Numbers that did not, recorded and here.
    """

    entry: Entry
    differences: tuple[str, ...]


def verify(
    entries: Iterable[Entry],
    *,
    store: Store | None = None,
    listen: Callable[[str, int, int], None] = lambda name, index, total: None,
) -> list[Verification]:
    """Run the first seed of every entry whose code has changed, at its own scale, and compare all its numbers.

    An entry counts as verified only if every number that its rule speaks of has the recorded digits. The other
    seeds are not run again: a change that spares the first seed of a study and moves another would be missed.

    Parameters
    ----------
    entries : iterable of Entry
        Of a ledger. Those that are fresh, or stale because of their rule or settings, are left out.
    store : Store, optional
        Where finished runs are kept; by default the user's.
    listen : callable
        Told the name, index and number of studies before each of them starts.
    """
    store = store or Store()
    stale = [entry for entry in entries if entry.runs and staleness(entry) == CODE]
    by_study: dict[tuple[str, str], list[Entry]] = {}
    for entry in stale:
        by_study.setdefault((entry.study, entry.scale), []).append(entry)
    results = []
    for index, ((name, scale), group) in enumerate(by_study.items()):
        listen(name, index, len(by_study))
        study = study_of(group[0].claim)
        assert study is not None  # `staleness` gave another reason otherwise
        seed = group[0].seeds[0]
        run = run_study(study, scale=scale, store=store, seed=seed)
        results += [compare(entry, run, seed) for entry in group]
    return results


def compare(entry: Entry, run: Run, seed: int) -> Verification:
    """Compare the first seed of an entry with a run of the present code, in the digits that the ledger holds."""
    study = study_of(entry.claim)
    assert study is not None
    rule = study.rule_of(entry.claim)
    estimates = Evidence.of({seed: run.result}).estimates([*rule.names, *rule.null_names])
    here = {name: rounded(estimate.mean) for name, estimate in estimates.items()}
    recorded = {name: estimate["seeds"][0] for name, estimate in {**entry.measured, **entry.null}.items()}
    differences = tuple(
        f"{name}: recorded {recorded.get(name, 'nothing')}, here {here.get(name, 'nothing')}"
        for name in sorted(recorded.keys() | here.keys())
        if name not in here or name not in recorded or recorded[name] != here[name]
    )
    if differences:
        return Verification(entry=entry, differences=differences)
    verified = {"code": run.spec.code, "commit": run.commit, "seed": seed}
    return Verification(entry=dataclasses.replace(entry, verified=verified, stale=""), differences=())
