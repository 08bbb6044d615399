"""Sentences about a theme follow from its ledger, whichever way the verdicts come out."""

from dataclasses import replace

import pytest

from reproduce.catalogue import claims
from reproduce.pages import readings
from reproduce.run import entry_not_run

CLAIM = claims()["profile.fig14.resnets"]
ENTRY = entry_not_run(CLAIM, scale="desk", reason="a test")


@pytest.mark.parametrize(
    ("verdict", "null_verdict", "holding", "lead"),
    [
        ("reproduced", "beyond", 1, None),
        ("reproduced", "none possible", 1, None),
        ("reproduced", "not beyond", 0, "The effect appears, but its null gives as much: "),
        ("partly", "beyond", 0, "Only a part of the statement holds: "),
        ("not reproduced", "not beyond", 0, "Not reproduced: "),
        ("inconclusive", "beyond", 0, "Not decided by the seeds that ran: "),
        ("not run", "", 0, "Not run: "),
    ],
)
def test_a_claim_is_counted_or_named_by_its_verdicts(verdict, null_verdict, holding, lead):
    entry = replace(ENTRY, verdict=verdict, null_verdict=null_verdict)
    counted, *named = readings([CLAIM], {CLAIM.id: entry})[CLAIM.topic]
    assert counted.startswith(f"{holding} of 1 claims hold")
    assert [line.startswith(lead) and CLAIM.id in line for line in named] == ([True] if lead else [])


def test_a_claim_without_an_entry_counts_as_not_run():
    assert readings([CLAIM], {})[CLAIM.topic][1].startswith("Not run: ")
