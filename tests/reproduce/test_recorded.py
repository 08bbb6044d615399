"""The ledger that is committed: complete, dated, and summarised where readers look."""

import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from reproduce.catalogue import claims
from reproduce.entries import largest, read_entries
from reproduce.judge import NULL_VERDICTS, VERDICTS
from reproduce.pages import recorded, recorded_entries, summary_sentence
from reproduce.run import judged_again

ROOT = Path(__file__).parents[2]
LEDGER = ROOT / "reproduce" / "ledger"
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
        assert entry.claim in claims()
        assert entry.verdict in VERDICTS
        if entry.verdict != "not run":
            assert entry.null_verdict in NULL_VERDICTS
            assert entry.seeds
            assert entry.environment["torch"]
            assert entry.version
            assert re.fullmatch(r"20\d\d-\d\d-\d\d", entry.date)
            assert not entry.commit.endswith("+"), f"{entry.claim} was recorded with uncommitted changes"


def test_the_readme_counts_what_is_recorded():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    shown = " ".join(readme.split("<!-- summary -->\n")[1].split("\n<!-- /summary -->")[0].split())
    assert shown == summary_sentence(recorded_entries(LEDGER)), (
        "`reproduce summary` prints it above the table"
    )


@pytest.mark.parametrize(("scale", "least"), [("desk", 200), ("night", 18)])
def test_the_rules_give_the_recorded_verdicts_from_the_recorded_seeds(scale, least):
    differing, n = [], 0
    for path in sorted((LEDGER / scale).glob("*.json")):
        for entry in read_entries(path):
            n += bool(entry.measured)
            if (told := judged_again(entry)) != entry:
                differing.append((entry.claim, entry.summary, told.summary))
    assert not differing, "`reproduce judge` judges the ledger again"
    assert n >= least


def test_no_recorded_number_has_an_interval_of_infinite_width_and_no_unknown_price_is_zero():
    for path in RECORDED:
        for entry in read_entries(path):
            assert entry.cpu_seconds is None or entry.cpu_seconds > 0, entry.claim
            for row in (*entry.measured.values(), *entry.null.values()):
                assert (row["interval"] is None) == (len(row["seeds"]) == 1), entry.claim
                assert all(isinstance(bound, int | float) for bound in row["interval"] or ()), entry.claim


def test_a_claim_is_counted_once_by_its_largest_scale():
    both = recorded(LEDGER)["pcbias.fig5b"]
    assert [entry.scale for entry in both] == ["desk", "night"]
    assert largest(both).scale == "night"
    unjudged = replace(both[1], verdict="not run")
    assert largest([both[0], unjudged]).scale == "desk"
    counted = [entry for entry in recorded_entries(LEDGER) if entry.claim == "pcbias.fig5b"]
    assert counted == [both[1]]
