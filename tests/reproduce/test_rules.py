import pytest
import torch

from firstlight.claims.conditions import Outcome, all_of, any_of, each, falling, rising, within
from reproduce.evidence import Evidence
from firstlight.claims.quantities import at_end, average, highest, lowest, share, value
from reproduce.judge import NoNull, Rule, judge

NO_NULL = NoNull("made up")


def evidence(**values):
    rows = {}
    for name, given in values.items():
        table = given if isinstance(given, dict) else {None: given}
        rows[name] = {point: torch.tensor(row, dtype=torch.float64) for point, row in table.items()}
    n = len(next(iter(next(iter(rows.values())).values())))
    return Evidence(seeds=tuple(range(n)), values=rows)


GAPS = evidence(gap={1: [4.6, 4.7, 4.8], 60: [0.4, 0.5, 0.6]})


def test_a_rule_prints_what_it_computes():
    condition = all_of(within(value("gap", at=1), 4.67, tolerance=1), value("gap", at=60) < 1)
    assert condition.words == "gap at 1 = 4.67 +- 1 and gap at 60 < 1"
    assert condition.outcome(GAPS) is Outcome.HOLDS
    quantity = (value("a") - value("b")) / value("c")
    assert (quantity > 2).words == "(a - b) / c > 2"
    assert (value("a") - (value("b") - value("c")) > 0).words == "a - (b - c) > 0"
    assert (abs(value("a") - 1) < 0.1).words == "|a - 1| < 0.1"


@pytest.mark.parametrize(
    ("condition", "outcome"),
    [
        (value("gap", at=1) > 1, Outcome.HOLDS),
        (value("gap", at=1) < 1, Outcome.FAILS),
        (value("gap", at=1) > 4.7, Outcome.OPEN),
        (value("gap", at=2) > 4.7, Outcome.MISSING),
        (within(value("gap", at=1), 4.7, tolerance=0.01), Outcome.OPEN),
        (within(value("gap", at=1), 9, tolerance=1), Outcome.FAILS),
        (falling("gap"), Outcome.HOLDS),
        (rising("gap"), Outcome.FAILS),
        (rising("gap", tolerance=10), Outcome.HOLDS),
        (each("gap", ">", 0), Outcome.HOLDS),
        (each("gap", ">", 1), Outcome.FAILS),
        (any_of(value("gap", at=1) < 1, value("gap", at=60) < 1), Outcome.HOLDS),
        (any_of(value("gap", at=1) < 1, value("gap", at=60) > 1), Outcome.FAILS),
        (any_of(value("gap", at=1) < 1, value("gap", at=60) > 0.5), Outcome.OPEN),
        (average("gap") > 2, Outcome.HOLDS),
        (lowest("gap") < 1, Outcome.HOLDS),
        (highest("gap", over=(1, 60)) > 4, Outcome.HOLDS),
        (highest("gap", over=(1, 2)) > 4, Outcome.MISSING),
        (share("gap", above=1) > 0.4, Outcome.HOLDS),
        (share("gap", below=1) > 0.6, Outcome.FAILS),
        (at_end("gap", end="last") < at_end("gap", end="first"), Outcome.HOLDS),
    ],
)
def test_conditions_are_decided_by_their_interval(condition, outcome):
    assert condition.outcome(GAPS) is outcome


def test_differences_are_taken_seed_by_seed():
    # far apart between seeds, but b is above a in every one of them by the same amount
    paired = evidence(a=[0.0, 5.0, 10.0], b=[1.0, 6.0, 11.1])
    assert (value("b") > value("a")).outcome(paired) is Outcome.HOLDS
    assert (value("b") > 5).outcome(paired) is Outcome.OPEN


def test_a_point_that_did_not_run_leaves_only_the_reduced_rule():
    rule = Rule(
        claim="x", effect=value("gap", at=500) < 1, reduced=at_end("gap", end="last") < 1, null=NO_NULL
    )
    judgement = judge(rule, GAPS)
    assert judgement.verdict == "partly"
    assert judgement.applied == "gap at the last point that ran < 1"
    assert "gap at 500" in judgement.reason


def test_without_a_reduced_rule_a_missing_point_is_not_run():
    rule = Rule(claim="x", effect=value("gap", at=500) < 1, null=NO_NULL)
    assert judge(rule, GAPS).verdict == "not run"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.95, 0.96, 0.97], "reproduced"),
        ([0.75, 0.76, 0.77], "partly"),
        ([0.25, 0.26, 0.27], "not reproduced"),
        ([0.85, 0.90, 0.95], "inconclusive"),
        ([0.65, 0.70, 0.75], "inconclusive"),
    ],
)
def test_the_five_verdicts(values, verdict):
    rule = Rule(claim="x", effect=value("r") > 0.9, reduced=value("r") > 0.7, null=NO_NULL)
    assert judge(rule, evidence(r=values)).verdict == verdict


@pytest.mark.parametrize(
    ("null", "verdict"), [([0.1, 0.2, 0.1], "beyond"), ([0.95, 0.97, 0.99], "not beyond")]
)
def test_the_null_has_a_verdict_of_its_own(null, verdict):
    rule = Rule(claim="x", effect=value("r") > 0.9, null=value("r") > value("shuffled"))
    judgement = judge(rule, evidence(r=[0.95, 0.96, 0.97], shuffled=null))
    assert (judgement.verdict, judgement.null_verdict) == ("reproduced", verdict)


def test_an_open_null_is_not_beyond():
    rule = Rule(claim="x", effect=value("r") > 0.9, null=value("r") > value("shuffled"))
    judgement = judge(rule, evidence(r=[0.95, 0.96, 0.97], shuffled=[0.2, 0.9, 1.3]))
    assert judgement.null_verdict == "not beyond"


def test_what_a_rule_requires_comes_first():
    rule = Rule(claim="x", effect=value("r") > 0.9, null=NO_NULL, requires=value("accuracy") > 0.9)
    untrained = evidence(r=[0.95, 0.96, 0.97], accuracy=[0.2, 0.21, 0.2])
    judgement = judge(rule, untrained)
    assert judgement.verdict == "not run"
    assert judgement.reason == "requires accuracy > 0.9; that does not hold"
    assert judgement.null_verdict == ""


def test_exact_claims_need_no_interval_but_every_seed():
    rule = Rule(claim="x", effect=value("error") < 1e-9, null=NO_NULL)
    assert judge(rule, evidence(error=[1e-12]), exact=True).verdict == "reproduced"
    assert judge(rule, evidence(error=[1e-12, 1e-3]), exact=True).verdict == "not reproduced"
    assert judge(rule, evidence(error=[1e-12])).verdict == "inconclusive"


def test_names_of_effect_and_null_are_told_apart():
    rule = Rule(
        claim="x",
        effect=value("r") > 0.9,
        reduced=value("s") > 0,
        null=value("r") > value("shuffled"),
        requires=value("accuracy") > 0.5,
    )
    assert rule.names == ("accuracy", "r", "s")
    assert rule.null_names == ("shuffled",)
    assert rule.words["beyond its null"] == "r > shuffled"
