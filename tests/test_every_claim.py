"""One generated smoke test per study, and the list of claims that no study serves yet."""

import pytest

from firstlight import claims
from firstlight.claims.reproduce import run_study
from firstlight.store import Store

# Themes whose studies are still to be written. A theme leaves this list when its issue is done.
WITHOUT_STUDIES: set[str] = set()


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    """Shared, so that networks trained for one study serve the next."""
    return Store(tmp_path_factory.mktemp("studies"))


@pytest.mark.parametrize("name", list(claims.STUDIES))
def test_study_runs_at_smoke_scale(name, store, monkeypatch):
    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(store.root))
    study = claims.STUDIES[name]
    run = run_study(study, scale="smoke", store=store)
    figure = study.body.figure(run.result)
    assert figure.plot["data"]
    assert figure.alt
    for id in study.claims:
        claim, rule = claims.all_claims()[id], study.body.rules[id]
        assert rule.measured(run.result), f"{id} measures nothing"
        if claim.exact:
            assert rule.reproduced(run.result), f"{id}: {rule.measured(run.result)}"


def test_every_claim_has_a_study_or_a_reason():
    missing = {
        id
        for id, claim in claims.all_claims().items()
        if claims.study_of(id) is None and id not in claims.ABSENT and claim.theme not in WITHOUT_STUDIES
    }
    assert not missing


def test_no_claim_is_served_twice_or_both_served_and_absent():
    served = [id for name in claims.STUDIES for id in claims.STUDIES[name].claims]
    assert len(served) == len(set(served))
    assert not set(served) & set(claims.ABSENT)


@pytest.mark.parametrize("name", list(claims.STUDIES))
def test_study_has_a_question_and_a_config_for_each_scale(name):
    study = claims.STUDIES[name]
    assert study.question.endswith("?")
    assert len({study.config(scale).seed for scale in claims.SCALES}) == 1
