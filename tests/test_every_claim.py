"""Generated for every study: it measures the recorded numbers, and each of its rules can come out every way."""

import pytest

from firstlight._internal.store import Store
from made_up import expected, judgements, stricter
from reproduce.catalogue import claims, studies
from reproduce.judge import identifier, judge, names_in
from reproduce.run import run_seeds
from smoke_numbers import is_close, moved


@pytest.fixture(scope="module")
def store(shared_folder):
    """Shared, so that networks trained for one study serve the next."""
    return Store(shared_folder / "studies")


@pytest.fixture
def measured(store, monkeypatch):
    """What a study measures at smoke scale; stored, so that a second test of it reads what the first one measured."""
    monkeypatch.setenv("FIRSTLIGHT_RUNS", str(store.root))

    def measure(name):
        study = studies()[name]
        outcome = run_seeds(study, study.seeds("smoke"), scale="smoke", store=store)
        assert not outcome.problem
        return study, outcome.evidence

    return measure


@pytest.mark.parametrize("name", list(studies()))
def test_study_gives_its_numbers_at_smoke_scale(name, measured):
    study, evidence = measured(name)
    lines = moved(study, evidence)
    assert not lines, "\n".join([f"If this is meant: python tests/numbers/renew.py {name}", *lines])
    figure = study.figure(evidence)
    assert figure.plot["data"]
    assert figure.alt
    known = {identifier(series) for series in evidence.values}
    for claim in (claims()[id] for id in study.claims):
        named = frozenset(claim.beside).union(*map(names_in, claim.rule.words.values()))
        assert named <= known, f"{claim.id} names what is not measured: {sorted(named - known)}"
        if claim.exact:
            told = judge(claim.rule, evidence, exact=True)
            assert told.verdict == "reproduced", f"{claim.id}: {told}, {lines}"


@pytest.mark.long
@pytest.mark.parametrize("name", list(studies()))
def test_rules_can_come_out_every_way(name, measured):
    study, evidence = measured(name)
    known = {identifier(series): evidence.points(series) for series in evidence.values}
    for claim in (claims()[id] for id in study.claims):
        rule = claim.rule
        if not claim.exact:
            missing = expected(rule) - judgements(rule, known, expected(rule))
            assert not missing, f"{claim.id} can never come out {missing}: {rule.words}"
        made = stricter(rule, known)
        assert made is None, f"{claim.id}: the weaker rule fails where the published one holds: {made}"


@pytest.mark.parametrize("id", list(claims()))
def test_every_claim_has_a_study_and_a_rule_or_a_reason(id):
    claim = claims()[id]
    served = [name for name in studies() if id in studies()[name].claims]
    assert len(served) == (0 if claim.absent else 1)
    if not claim.absent:
        assert bool(claim.rule.null) != bool(claim.no_null)
        assert claim.rule.null or len(claim.no_null) > 20, f"{id}: say why no null is possible"


@pytest.mark.parametrize("name", list(studies()))
def test_every_scale_starts_from_the_same_seed(name):
    study = studies()[name]
    assert len({study.at_scale(scale).seed for scale in study.scales}) == 1


def test_a_number_may_differ_by_its_tolerance_only():
    assert is_close(1.0 + 9e-7, 1.0, 1e-6)
    assert not is_close(1.0 - 2e-6, 1.0, 1e-6)
    assert is_close(float("inf"), float("inf"), 1e-6)
    assert not is_close(float("nan"), 1.0, 1e-6)
