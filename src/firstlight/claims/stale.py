"""Which entries of a ledger were made by code or settings that have changed since."""

import dataclasses
import json
from collections.abc import Iterable
from typing import Any

from firstlight.claims.ledger import Entry
from firstlight.claims.rules import NOT_RUN
from firstlight.claims.study import Study, study_of

CODE = "code that it reaches, or a library, has changed"
"""The one reason that running a seed again can take back."""


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
    if _without_seed(entry.settings) != _without_seed(_settings(study, entry.scale)):
        return "its settings have changed"
    if study.code() not in (entry.code, entry.verified.get("code")):
        return CODE
    return ""


def _settings(study: type[Study], scale: str) -> dict[str, Any]:
    """Return the settings of a scale as a ledger file spells them: tuples become lists."""
    settings: dict[str, Any] = json.loads(json.dumps(dataclasses.asdict(study.config(scale))))
    return settings


def _without_seed(settings: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in json.loads(json.dumps(settings)).items() if key != "seed"}


def stale_entries(entries: Iterable[Entry]) -> dict[str, str]:
    """Claims whose entries are stale, with the reason."""
    return {entry.claim: reason for entry in entries if (reason := staleness(entry))}
