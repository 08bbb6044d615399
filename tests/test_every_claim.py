"""Generated for every study: it measures the recorded numbers, and each of its rules can come out every way."""

import pytest

from claims.made_up import expected, judgements, stricter
from firstlight import claims
from reproduce.run import run_seeds
from reproduce.judge import NoNull
from firstlight.store import Store
from smoke_numbers import is_close, moved


@pytest.fixture(scope="module")
def store(shared_folder):
    """Shared, so that networks trained for one study serve the next."""
    return Store(shared_folder / "studies")


@pytest.mark.parametrize("name", list(claims.STUDIES))
def test_study_gives_its_numbers_at_smoke_scale_and_its_rules_can_come_out_every_way(
    name, store, monkeypatch
):
    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(store.root))
    study = claims.STUDIES[name]
    outcome = run_seeds(study, study.seeds("smoke"), scale="smoke", store=store)
    assert not outcome.problem
    evidence = outcome.evidence
    lines = moved(study, evidence)
    assert not lines, "\n".join([f"If this is meant: python tests/numbers/renew.py {name}", *lines])
    figure = study.figure(evidence)
    assert figure.plot["data"]
    assert figure.alt
    points = {series: evidence.points(series) for series in evidence.values}
    for rule in study.rules:
        claim = claims.all_claims()[rule.claim]
        measured = evidence.estimates((*rule.names, *rule.null_names))
        assert set(rule.names) | set(rule.null_names) <= set(evidence.values), (
            f"{rule.claim} names what is not measured"
        )
        if claim.exact:
            assert claims.judge(rule, evidence, exact=True).verdict == "reproduced", (
                f"{rule.claim}: {measured}"
            )
        else:
            missing = expected(rule) - judgements(rule, points, expected(rule))
            assert not missing, f"{rule.claim} can never come out {missing}: {rule.words}"
        made = stricter(rule, points)
        assert made is None, f"{rule.claim}: the reduced rule fails where the published one holds: {made}"


@pytest.mark.parametrize("name", list(claims.STUDIES))
def test_non_exact_rules_have_a_null_or_a_reason(name):
    for rule in claims.STUDIES[name].rules:
        if isinstance(rule.null, NoNull):
            assert len(rule.null.reason) > 20, f"{rule.claim}: say why no null is possible"


def test_every_claim_has_a_study_or_a_reason():
    missing = {id for id in claims.all_claims() if claims.study_of(id) is None and id not in claims.ABSENT}
    assert not missing


def test_no_claim_is_judged_twice_or_both_judged_and_absent():
    judged = [id for name in claims.STUDIES for id in claims.STUDIES[name].claims()]
    assert len(judged) == len(set(judged))
    assert not set(judged) & set(claims.ABSENT)


@pytest.mark.parametrize("name", list(claims.STUDIES))
def test_every_scale_starts_from_the_same_seed(name):
    study = claims.STUDIES[name]
    assert len({study.config(scale).seed for scale in study.scales}) == 1


def test_a_number_may_differ_by_its_tolerance_only():
    assert is_close(1.0 + 9e-7, 1.0, 1e-6)
    assert not is_close(1.0 - 2e-6, 1.0, 1e-6)
    assert is_close(float("inf"), float("inf"), 1e-6)
    assert not is_close(float("nan"), 1.0, 1e-6)
