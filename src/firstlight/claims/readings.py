"""What the verdicts of a topic come to, in sentences that follow from the ledger alone."""

from collections.abc import Mapping, Sequence

from firstlight.claims.catalogue import Claim
from firstlight.claims.ledger import Entry, is_beyond
from firstlight.claims.rules import INCONCLUSIVE, NOT_REPRODUCED, NOT_RUN, PARTLY, REPRODUCED

LEADS = {
    f"{REPRODUCED}, explained by the null": "The effect appears, but its null gives as much",
    PARTLY: "Only a part of the statement holds",
    NOT_REPRODUCED: "Not reproduced",
    INCONCLUSIVE: "Not decided by the seeds that ran",
    NOT_RUN: "Not run",
}
"""How a group of claims that do not plainly hold is introduced, in the order in which they are told."""


def readings(claims: Sequence[Claim], entries: Mapping[str, Entry]) -> dict[str, list[str]]:
    """Tell for each topic how many claims hold, and name all that do not.

    Parameters
    ----------
    claims : sequence of Claim
        Of a theme, in the order of claims.yaml.
    entries : mapping of str to Entry
        Of the ledger, by claim; a claim that is missing counts as not run.

    Returns
    -------
    dict of str to list of str
        Sentences in Markdown by topic. The first counts, the others name claims.
    """
    told: dict[str, list[str]] = {}
    for topic in dict.fromkeys(claim.topic for claim in claims):
        own = [claim for claim in claims if claim.topic == topic]
        groups: dict[str, list[Claim]] = {}
        for claim in own:
            groups.setdefault(_group(entries.get(claim.id)), []).append(claim)
        holding = len(groups.get(REPRODUCED, ()))
        told[topic] = [
            f"{holding} of {len(own)} claims hold beyond their null, or exactly.",
            *(f"{lead}: {_named(groups[group])}" for group, lead in LEADS.items() if group in groups),
        ]
    return told


def _group(entry: Entry | None) -> str:
    if entry is None:
        return NOT_RUN
    if entry.verdict == REPRODUCED and not is_beyond(entry):
        return f"{REPRODUCED}, explained by the null"
    return entry.verdict


def _named(claims: Sequence[Claim]) -> str:
    return " ".join(f"{claim.statement.rstrip('.')} (`{claim.id}`)." for claim in claims)
