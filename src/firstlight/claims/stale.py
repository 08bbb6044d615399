"""Which entries of a ledger were made by code that has changed since."""

from collections.abc import Iterable

from firstlight.claims.ledger import Entry
from firstlight.claims.rules import NOT_RUN
from firstlight.claims.study import study_of


def staleness(entry: Entry) -> str:
    """Why an entry is no longer what the code would give; empty if it is."""
    study = study_of(entry.claim)
    if study is None:
        return f"no study judges {entry.claim} any more" if entry.study else ""
    if entry.verdict == NOT_RUN and not entry.runs:
        return "" if entry.study == study.name else "a study judges it now"
    rule = study.rule_of(entry.claim)
    if entry.rule != rule.words:
        return "its rule has changed"
    if entry.code != study.code():
        return "code that it reaches, or a library, has changed"
    return ""


def stale_entries(entries: Iterable[Entry]) -> dict[str, str]:
    """Claims whose entries are stale, with the reason."""
    return {entry.claim: reason for entry in entries if (reason := staleness(entry))}
