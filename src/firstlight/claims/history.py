"""What earlier versions of the rules said: every change of a rule keeps the old verdict, the reason and the date."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from firstlight.claims.catalogue import THEMES, all_claims
from firstlight.claims.ledger import Entry, read
from firstlight.claims.study import study_of

FIRST = "version-1"
INTERVALS = "judged by the interval over seeds and against its null; version 1 compared means"
CHANGED = "2026-11-16"


@dataclass(frozen=True, kw_only=True)
class Revision:
    """One claim under the first and the present version of its rule.

    Parameters
    ----------
    claim : str
        Identifier.
    old_verdict, old_rule : str
        Under version 1, as registered in words.
    new_verdict, new_rule : str
        Under version 2; the verdict is "not recorded yet" until a run is.
    reason, date : str
        Why and when the rule changed.
    """

    claim: str
    old_verdict: str
    old_rule: str
    new_verdict: str
    new_rule: str
    reason: str
    date: str


def revisions(folder: Path, entries: Sequence[Entry]) -> list[Revision]:
    """Claims whose rule changed after it had judged a result.

    Parameters
    ----------
    folder : Path
        Of the ledger; the first version lies in its folder ``version-1``.
    entries : sequence of Entry
        The present ledger.
    """
    old = {row["claim"]: row for theme in THEMES for row in read(folder / FIRST / f"{theme}.json")}
    new = {entry.claim: entry for entry in entries}
    revised = []
    for id, row in old.items():
        study, claim = study_of(id), all_claims().get(id)
        if study is None or claim is None:
            continue
        rule = study.rule_of(id)
        if claim.exact and rule.change is None:
            continue
        revised.append(
            Revision(
                claim=id,
                old_verdict=row["verdict"],
                old_rule=row["rule"],
                new_verdict=new[id].summary if id in new else "not recorded yet",
                new_rule=rule.effect.words,
                reason=rule.change.reason if rule.change else INTERVALS,
                date=rule.change.date if rule.change else CHANGED,
            )
        )
    return revised
