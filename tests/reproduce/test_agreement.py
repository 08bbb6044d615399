"""A ledger from other seeds or another machine agrees with a recorded one, or does not."""

import json
from dataclasses import asdict
from pathlib import Path

import pytest
import torch

from reproduce.__main__ import app
from reproduce.entries import Entry, agreement, read_entries, record, repetition_interval
from reproduce.evidence import estimate

LEDGER = Path(__file__).parents[2] / "reproduce" / "ledger"


def printed(values):
    e = estimate(values)
    return {"mean": e.mean, "interval": [e.low, e.high], "seeds": list(e.seeds)}


def entry(values, claim="profile.table1.seeds", verdict="reproduced"):
    return Entry(
        claim=claim, theme="first_layer", statement="", exact=False, reported="", verdict=verdict, scale="desk",
        null_verdict="beyond", measured={"number": printed(values)}, runs=["a"], seeds=[0],
    )  # fmt: skip


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize(("n", "m"), [(5, 5), (5, 3), (8, 5)])
def test_the_interval_of_a_repetition_covers_95_per_cent_of_them(n, m):
    inside = 0
    for row in normal(4000, n + m, seed=n):
        e = estimate(row[:n])
        low, high = repetition_interval(e.seeds, [e.low, e.high], m=m)
        inside += low <= float(row[n:].mean()) <= high
    assert inside / 4000 == pytest.approx(0.95, abs=0.012)


def test_repetitions_of_one_experiment_agree_and_those_of_another_do_not():
    values = normal(60, 5)
    again = normal(60, 5, seed=1)
    recorded, same, moved = (
        [entry(row, claim=f"claim {i}") for i, row in enumerate(rows)] for rows in (values, again, again + 3)
    )
    assert not agreement(recorded, same).is_more_than_chance
    assert agreement(recorded, moved).is_more_than_chance
    assert agreement(recorded, same).n_numbers == 60


def test_another_verdict_is_named_and_claims_that_did_not_run_are_not_compared():
    values = normal(5)
    result = agreement([entry(values)], [entry(values, verdict="partly")])
    assert [(d.recorded, d.here) for d in result.verdicts] == [("reproduced", "partly")]
    assert agreement([entry(values)], [entry(values, verdict="not run")]).n_claims == 0


def test_one_seed_has_no_spread_to_compare_with():
    assert agreement([entry(normal(1))], [entry(normal(1) + 5)]).n_numbers == 0


def test_the_command_exits_with_1_if_a_verdict_differs(tmp_path, capsys):
    entries = read_entries(LEDGER / "desk" / "newer_papers.json")
    record(entries, tmp_path / "mine")
    app(["agree", str(tmp_path / "mine"), "--recorded", str(LEDGER)], result_action="return_value")
    assert f"0 of {len(entries)} verdicts differ. 0 of" in capsys.readouterr().out
    changed = next(e for e in entries if e.verdict == "reproduced")
    record([Entry(**{**asdict(changed), "verdict": "not reproduced"})], tmp_path / "mine")
    with pytest.raises(SystemExit) as stopped:
        app(["agree", str(tmp_path / "mine"), "--recorded", str(LEDGER), "--json"])
    assert stopped.value.code == 1
    assert json.loads(capsys.readouterr().out)["verdicts"][0]["claim"] == changed.claim
