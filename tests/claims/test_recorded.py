"""The ledger that is committed: fresh, or with a note that says why not; and summarised where readers look."""

import re
import subprocess
from pathlib import Path

import pytest

from firstlight import claims
from firstlight.claims.ledger import read_entries
from firstlight.claims.stale import stale_entries
from firstlight.claims.summary import summary_table
from firstlight.report.ledger import recorded_entries

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "docs" / "ledger"
RECORDED = sorted(LEDGER.glob("*/*.json"))
PRESENT = [path for path in RECORDED if path.parent.name != "version-1"]


@pytest.mark.parametrize("path", PRESENT, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_entries_are_what_the_present_code_gives_or_say_why_not(path):
    entries = [entry for entry in read_entries(path) if entry.runs]
    silent = {claim: why for claim, why in stale_entries(entries).items() if not _note(entries, claim)}
    assert not silent, "run `firstlight reproduce` again, or write a note into `stale` of each entry"


def test_the_commits_of_entries_can_be_looked_up():
    named = {
        c for path in PRESENT for e in read_entries(path) for c in (e.commit, e.verified.get("commit")) if c
    }
    git = ["git", "-C", str(ROOT)]
    shallow = subprocess.run(
        [*git, "rev-parse", "--is-shallow-repository"], capture_output=True, text=True, check=False
    )
    if shallow.stdout.strip() == "false":  # a shallow clone, or no clone at all, has no history to look at
        known = subprocess.run(
            [*git, "cat-file", "--batch-check"],
            input="\n".join(named),
            capture_output=True,
            text=True,
            check=True,
        )
        assert not [line for line in known.stdout.splitlines() if line.endswith("missing")]
    assert all(re.fullmatch(r"[0-9a-f]{12,40}", commit) for commit in named)


def _note(entries, claim):
    return next(entry.stale for entry in entries if entry.claim == claim)


@pytest.mark.parametrize("path", PRESENT, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_entries_name_known_claims_and_both_answers(path):
    for entry in read_entries(path):
        assert entry.claim in claims.all_claims()
        assert entry.verdict in claims.VERDICTS
        if entry.verdict != "not run":
            assert entry.null_verdict in claims.NULL_VERDICTS
            assert entry.seeds
            assert entry.environment["torch"]
            assert not entry.commit.endswith("+"), f"{entry.claim} was recorded with uncommitted changes"


def test_the_readme_counts_what_is_recorded():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("<!-- summary -->\n")[1].split("<!-- /summary -->")[0].strip()
    assert shown == summary_table(recorded_entries(LEDGER)), "`firstlight claims summary` prints the table"


def test_the_first_version_of_the_ledger_is_kept():
    old = {row["claim"] for theme in claims.THEMES for row in _rows(theme)}
    assert len(old) == 188
    assert old <= set(claims.all_claims())


def _rows(theme):
    from firstlight.claims.ledger import read

    return read(LEDGER / "version-1" / f"{theme}.json")
