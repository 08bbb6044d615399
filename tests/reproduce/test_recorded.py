"""The ledger that is committed: complete, dated, and summarised where readers look."""

import re
import subprocess
from pathlib import Path

import pytest
import torch

from reproduce.catalogue import claims
from reproduce.entries import read_entries
from reproduce.evidence import Evidence
from reproduce.judge import NULL_VERDICTS, VERDICTS, identifier, judge, names_in
from reproduce.pages import recorded_entries, summary_table

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
    shown = readme.split("<!-- summary -->\n")[1].split("<!-- /summary -->")[0].strip()
    assert shown == summary_table(recorded_entries(LEDGER)), "`reproduce summary` prints the table"


def recorded_evidence(entry, rule):
    """The four digits of each seed that an entry keeps, as evidence for its rule."""
    named = frozenset().union(*(names_in(text) for text in rule.words.values()))
    values = {}
    for label, row in {**entry.measured, **entry.null}.items():
        parts = label.split(", ")  # "name, point"; both may hold commas
        splits = ((", ".join(parts[:i]), ", ".join(parts[i:])) for i in range(len(parts), 0, -1))
        name, point = next((name, point) for name, point in splits if identifier(name) in named)
        seeds = torch.tensor([float(value) for value in row["seeds"]], dtype=torch.float64)
        values.setdefault(name, {})[typed(point)] = seeds
    return Evidence(seeds=tuple(entry.seeds), values=values)


def typed(point):
    for kind in (int, float):
        try:
            return kind(point)
        except ValueError:
            continue
    return point or None


@pytest.mark.parametrize(("scale", "least"), [("desk", 200), ("night", 18)])
def test_the_rules_give_the_recorded_verdicts_from_the_recorded_seeds(scale, least):
    differing, n = [], 0
    for path in sorted((LEDGER / scale).glob("*.json")):
        for entry in read_entries(path):
            claim = claims()[entry.claim]
            if entry.measured:
                told = judge(claim.rule, recorded_evidence(entry, claim.rule), exact=claim.exact)
                n += 1
                if (told.verdict, told.null_verdict) != (entry.verdict, entry.null_verdict):
                    differing.append((entry.claim, entry.summary, told))
    assert not differing
    assert n >= least
