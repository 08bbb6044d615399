"""One claim at two scales: do the verdicts agree, and if not, what was different?"""

import json
from collections.abc import Mapping
from typing import Any

from firstlight.claims.ledger import Entry
from firstlight.claims.rules import NOT_RUN

MOST = 6
"""Settings that are named; the others are counted."""


def contradiction(desk: Entry, night: Entry) -> str:
    """Why two scales answer differently, from what is recorded; empty if they agree or one did not run.

    The settings that changed between them, the number of seeds, and the condition that decided, where it is another.
    """
    if desk.summary == night.summary or NOT_RUN in (desk.verdict, night.verdict):
        return ""
    changed = _changed(_flat(desk.settings), _flat(night.settings))
    named = [f"{name} {here} → {there}" for name, (here, there) in list(changed.items())[:MOST]]
    if len(changed) > MOST:
        named.append(f"{len(changed) - MOST} more settings")
    words = [f"At night: {night.summary}; at the desk: {desk.summary}."]
    words += [f"What changed: {', '.join(named)}."] if named else []
    if len(desk.seeds) != len(night.seeds):
        words.append(f"The night has {_seeds(night)}, the desk {_seeds(desk)}.")
    if desk.applied != night.applied:
        words.append(f"It decided: {night.applied}; at the desk: {desk.applied}.")
    return " ".join(words)


def _seeds(entry: Entry) -> str:
    return f"{len(entry.seeds)} {'seed' if len(entry.seeds) == 1 else 'seeds'}"


def _changed(here: Mapping[str, Any], there: Mapping[str, Any]) -> dict[str, tuple[Any, Any]]:
    """Settings with different values, as (here, there)."""
    names = [name for name in {**here, **there} if name != "seed"]
    pairs = {name: (here.get(name, "-"), there.get(name, "-")) for name in names}
    return {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}


def _flat(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Settings by dotted name, as a ledger file spells them."""
    flat: dict[str, Any] = {}
    for name, value in json.loads(json.dumps(settings)).items():
        flat |= _flat(value, f"{prefix}{name}.") if isinstance(value, dict) else {f"{prefix}{name}": value}
    return flat
