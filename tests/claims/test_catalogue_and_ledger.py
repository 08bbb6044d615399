import json
from dataclasses import dataclass

import pytest
import torch

from firstlight import claims
from firstlight.claims import ledger
from firstlight.claims.reproduce import reproduce, run_study
from firstlight.claims.study import Rule, Study
from firstlight.core.errors import DataUnavailable, Diverged, InvalidInput, StoreProblem
from firstlight.store import Store
from firstlight.training import History


def test_all_claims_are_there():
    found = claims.all_claims()
    assert len(found) == 188
    assert sum(c.exact for c in found.values()) == 62
    assert {c.theme for c in found.values()} == set(claims.THEMES)


def test_names_that_mean_nothing_are_refused_with_the_nearest():
    with pytest.raises(InvalidInput, match="Did you mean 'first_layer'"):
        claims.select("first_layr")
    assert {c.id for c in claims.select("linear.thm42")} == {"linear.thm42.spectral", "linear.thm42.lambda"}


RESULT = History(loss=torch.tensor([0.5]), hits=torch.tensor([1.0]), steps_per_epoch=1)


def rule(*, reproduced, partly=False, value=0.5):
    return Rule(
        measured=lambda r: {"loss": value},
        reproduced=lambda r: reproduced,
        partly=lambda r: partly,
        note="seen",
    )


@pytest.mark.parametrize(
    ("made", "scale", "verdict"),
    [
        (rule(reproduced=True), "desk", "reproduced"),
        (rule(reproduced=False, partly=True), "desk", "partly"),
        (rule(reproduced=False), "desk", "not reproduced"),
        (rule(reproduced=True), "smoke", "not run"),
        (rule(reproduced=True, value=float("nan")), "desk", "not run"),
    ],
)
def test_verdicts_follow_the_rules(made, scale, verdict):
    claim = claims.all_claims()["profile.table1.seeds"]
    assert ledger.judge(claim, made, RESULT, scale=scale)[0] == verdict


def test_exact_claims_are_judged_at_smoke_scale():
    claim = claims.all_claims()["profile.invariance"]
    assert ledger.judge(claim, rule(reproduced=True), RESULT, scale="smoke")[0] == "reproduced"


def test_the_ledger_names_everything_a_reader_needs(tmp_path):
    entries = reproduce("profile.invariance", store=Store(tmp_path / "runs"))
    ledger.record(entries, tmp_path)
    ledger.record(reproduce("profile.cnfm_diagonal", store=Store(tmp_path / "runs")), tmp_path)
    body = json.loads((tmp_path / "first_layer.json").read_text())
    rows = {row["claim"]: row for row in body["claims"]}
    assert set(rows) == {"profile.invariance", "profile.cnfm_diagonal"}, "earlier lines are kept"
    row = rows["profile.invariance"]
    assert row["verdict"] == "reproduced"
    assert row["config"]["seed"] == 0
    assert row["cpu_seconds"] >= 0
    assert row["reported"] == "exact property"
    assert row["run"] in Store(tmp_path / "runs").ids()


def test_a_damaged_ledger_is_named(tmp_path):
    (tmp_path / "first_layer.json").write_text("{}")
    entry = ledger.entry_not_run(claims.all_claims()["profile.invariance"], scale="desk", note="because")
    with pytest.raises(StoreProblem, match=r"first_layer\.json is damaged"):
        ledger.record([entry], tmp_path)


@dataclass(frozen=True, kw_only=True)
class Config:
    seed: int = 0


def study_that(run):
    body = type("Body", (), {"scales": dict.fromkeys(claims.SCALES, Config()), "run": staticmethod(run)})
    body.__module__ = "firstlight.claims.study"
    return Study(name="first_layer/fake", theme="first_layer", question="?", claims=(), body=body)


def test_a_finished_study_is_not_run_again_but_another_seed_is(tmp_path):
    calls = []

    def run(cfg):
        calls.append(cfg.seed)
        return RESULT

    store = Store(tmp_path)
    for seed in (None, None, 1):
        run_study(study_that(run), scale="smoke", store=store, seed=seed)
    assert calls == [0, 1]


@pytest.mark.parametrize("problem", [DataUnavailable("no network"), Diverged("loss became nan")])
def test_missing_data_and_divergence_do_not_poison_the_ledger(monkeypatch, tmp_path, problem):
    def fail(cfg):
        raise problem

    found = claims.study_of("profile.invariance")
    monkeypatch.setattr(found.body, "run", staticmethod(fail))
    entries = reproduce("profile.invariance", store=Store(tmp_path))
    assert entries[0].verdict == "not run"
    assert str(problem) in entries[0].note


def test_an_unknown_scale_is_refused():
    with pytest.raises(InvalidInput, match="Did you mean 'desk'"):
        reproduce("all", scale="deskk")
