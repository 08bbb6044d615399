"""The ledger that is committed: complete, dated, and summarised where readers look."""

import re
import subprocess
from pathlib import Path

import pytest

from firstlight import claims
from firstlight.claims.ledger import read_entries
from firstlight.claims.summary import summary_table
from firstlight.pages.ledger import recorded_entries

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "docs" / "ledger"
RECORDED = sorted(LEDGER.glob("*/*.json"))


def test_the_commits_of_entries_can_be_looked_up():
    named = {e.commit for path in RECORDED for e in read_entries(path) if e.commit}
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


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_entries_name_known_claims_and_both_answers(path):
    for entry in read_entries(path):
        assert entry.claim in claims.all_claims()
        assert entry.verdict in claims.VERDICTS
        if entry.verdict != "not run":
            assert entry.null_verdict in claims.NULL_VERDICTS
            assert entry.seeds
            assert entry.environment["torch"]
            assert entry.version
            assert re.fullmatch(r"20\d\d-\d\d-\d\d", entry.date)
            assert not entry.commit.endswith("+"), f"{entry.claim} was recorded with uncommitted changes"


def test_the_readme_counts_what_is_recorded():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = readme.split("<!-- summary -->\n")[1].split("<!-- /summary -->")[0].strip()
    assert shown == summary_table(recorded_entries(LEDGER)), "`firstlight claims summary` prints the table"
