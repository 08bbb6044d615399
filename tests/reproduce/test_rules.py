"""Rules are text: what they say is what is executed, and what the grammar lacks is refused."""

import pytest
import torch

from firstlight._internal.errors import InvalidInput
from reproduce.evidence import Evidence
from reproduce.judge import Outcome, Rule, judge, missing, names_in, outcome


def evidence(**values):
    rows = {}
    for name, given in values.items():
        table = given if isinstance(given, dict) else {None: given}
        rows[name] = {point: torch.tensor(row, dtype=torch.float64) for point, row in table.items()}
    n = len(next(iter(next(iter(rows.values())).values())))
    return Evidence(seeds=tuple(range(n)), values=rows)


GAPS = evidence(gap={1: [4.6, 4.7, 4.8], 60: [0.4, 0.5, 0.6]}, rate=[2.0, 2.0, 2.0])


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("gap[1] > 1", Outcome.HOLDS),
        ("gap[1] < 1", Outcome.FAILS),
        ("gap[1] > 4.7", Outcome.OPEN),
        ("gap[2] > 4.7", Outcome.MISSING),
        ("gap > 4.7", Outcome.MISSING),  # a series is no number
        ("rate[first] > 1", Outcome.MISSING),  # nor a number a series
        ("rate >= 2 and rate <= 2", Outcome.HOLDS),
        ("rate > 2 or rate < 2", Outcome.FAILS),
        ("4.69 <= gap[1] <= 4.71", Outcome.OPEN),
        ("8 <= gap[1] <= 10", Outcome.FAILS),
        ("3.67 <= gap[1] <= 5.67 and gap[60] < 1", Outcome.HOLDS),
        ("falling(gap)", Outcome.HOLDS),
        ("rising(gap)", Outcome.FAILS),
        ("rising(gap, 10)", Outcome.HOLDS),
        ("rising(rate)", Outcome.MISSING),
        ("all(gap > 0)", Outcome.HOLDS),
        ("all(gap > 1)", Outcome.FAILS),
        ("all(gap > rate)", Outcome.FAILS),
        ("all(gap > other)", Outcome.MISSING),
        ("gap[1] < 1 or gap[60] < 1", Outcome.HOLDS),
        ("gap[1] < 1 or gap[60] > 1", Outcome.FAILS),
        ("gap[1] < 1 or gap[60] > 0.5", Outcome.OPEN),
        ("gap[1] > 1 or other > 0", Outcome.MISSING),
        ("(gap[1] < 1 or gap[60] > 1) and gap[1] > 4.7", Outcome.FAILS),
        ("mean(gap) > 2", Outcome.HOLDS),
        ("min(gap) < 1", Outcome.HOLDS),
        ("max(gap[1, 60]) > 4", Outcome.HOLDS),
        ("max(gap[1, 2]) > 4", Outcome.MISSING),
        ("share(gap > 1) > 0.4", Outcome.HOLDS),
        ("share(gap < 1) > 0.6", Outcome.FAILS),
        ("gap[last] < gap[first]", Outcome.HOLDS),
        ("abs(gap[60] - gap[1]) / rate - 2 * -1 > 4", Outcome.HOLDS),
    ],
)
def test_a_text_is_decided_by_intervals_over_seeds(text, told):
    assert outcome(text, GAPS) is told


@pytest.mark.parametrize(
    "text",
    [
        "gap",
        "gap[1]",
        "gap[1] == 2",
        "not gap[1] > 2",
        "gap[1] ** 2 > 2",
        "gap[1] > True",
        "gap[1] > 'a'",
        "len(gap) > 2",
        "all(gap)",
        "all(rising(gap) > 1)",
        "rising(gap[1])",
        "rising(gap, 1, 2)",
        "share(gap >= 1) > 0.5",
        "mean(2) > 1",
        "gap[point] > 1",
        "gap[1:2] > 1",
        "gap.mean > 1",
        "__import__('os').system('true') > 1",
        "gap[1] >",
        "",
    ],
)
def test_what_the_grammar_lacks_is_refused_when_the_rule_is_read(text):
    with pytest.raises(InvalidInput):
        Rule(effect="gap[1] > 0", requires="gap[1] > 0 and " + text if text else "gap[1] >")


def test_names_and_missing_points_are_told_as_the_text_spells_them():
    text = 'max(gap[1, 7]) > abs(other) and falling(gap) and gap[last] > fast["a b"]'
    assert names_in(text) == {"gap", "other", "fast"}
    assert missing(text, GAPS) == ["fast['a b']", "gap[7]", "other"]


def test_measurements_are_spelled_as_identifiers():
    table = {"Gap of CNNs, p = n": {None: torch.ones(3)}, "95th percentile": {None: torch.zeros(3)}}
    assert (
        outcome("gap_of_cnns_p_n > _95th_percentile", Evidence(seeds=(0, 1, 2), values=table))
        is Outcome.HOLDS
    )


def test_differences_are_taken_seed_by_seed():
    # far apart between seeds, but b is above a in every one of them by the same amount
    paired = evidence(a=[0.0, 5.0, 10.0], b=[1.0, 6.0, 11.1])
    assert outcome("b > a", paired) is Outcome.HOLDS
    assert outcome("b > 5", paired) is Outcome.OPEN


def test_a_point_that_did_not_run_leaves_only_the_weaker_rule():
    judgement = judge(Rule(effect="gap[500] < 1", weaker="gap[last] < 1"), GAPS)
    assert judgement.verdict == "partly"
    assert judgement.applied == "gap[last] < 1"
    assert "gap[500]" in judgement.reason


def test_without_a_weaker_rule_a_missing_point_is_not_run():
    assert judge(Rule(effect="gap[500] < 1"), GAPS).verdict == "not run"


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([0.95, 0.96, 0.97], "reproduced"),
        ([0.75, 0.76, 0.77], "partly"),
        ([0.25, 0.26, 0.27], "not reproduced"),
        ([0.85, 0.90, 0.95], "partly"),
        ([0.65, 0.70, 0.75], "inconclusive"),
    ],
)
def test_the_five_verdicts(values, verdict):
    assert judge(Rule(effect="r > 0.9", weaker="r > 0.7"), evidence(r=values)).verdict == verdict


def test_a_weaker_rule_that_holds_counts_while_the_effect_is_open():
    told = judge(Rule(effect="r > 0.9", weaker="r > 0.7"), evidence(r=[0.85, 0.90, 0.95]))
    assert (told.verdict, told.applied, told.reason) == ("partly", "r > 0.7", "the full effect is open")
    assert told.outcomes == {"reproduced": Outcome.OPEN, "partly": Outcome.HOLDS}
    for weaker in ("", "r > 0.88", "r < 0.5", "other > 0"):  # none, open as well, failed, not measured
        told = judge(Rule(effect="r > 0.9", weaker=weaker), evidence(r=[0.85, 0.90, 0.95]))
        assert told.verdict == "inconclusive"


def test_the_weaker_rule_is_judged_also_where_it_does_not_decide():
    told = judge(Rule(effect="r > 0.7", weaker="r > 1.5", null="r > 2"), evidence(r=[0.85, 0.90, 0.95]))
    assert told.verdict == "reproduced"
    assert told.outcomes == {
        "reproduced": Outcome.HOLDS, "partly": Outcome.FAILS, "beyond its null": Outcome.FAILS
    }  # fmt: skip


def test_one_seed_decides_no_effect_and_says_why():
    told = judge(Rule(effect="r > 0.9"), evidence(r=[0.99]))
    assert (told.verdict, told.reason) == ("inconclusive", "one seed has no interval")


@pytest.mark.parametrize(
    ("null", "verdict"),
    [([0.1, 0.2, 0.1], "beyond"), ([0.95, 0.97, 0.99], "not beyond"), ([0.2, 0.9, 1.3], "not beyond")],
)
def test_the_null_has_a_verdict_of_its_own(null, verdict):
    judgement = judge(
        Rule(effect="r > 0.9", null="r > shuffled"), evidence(r=[0.95, 0.96, 0.97], shuffled=null)
    )
    assert (judgement.verdict, judgement.null_verdict) == ("reproduced", verdict)


def test_what_a_rule_requires_comes_first():
    rule = Rule(effect="r > 0.9", requires="accuracy > 0.9")
    judgement = judge(rule, evidence(r=[0.95, 0.96, 0.97], accuracy=[0.2, 0.21, 0.2]))
    assert judgement.verdict == "not run"
    assert judgement.reason == "requires accuracy > 0.9; that does not hold"
    assert judgement.null_verdict == ""


def test_exact_claims_need_no_interval_but_every_seed():
    rule = Rule(effect="error < 1e-9")
    assert judge(rule, evidence(error=[1e-12]), exact=True).verdict == "reproduced"
    assert judge(rule, evidence(error=[1e-12, 1e-3]), exact=True).verdict == "not reproduced"
    assert judge(rule, evidence(error=[1e-12])).verdict == "inconclusive"


def test_names_of_effect_and_null_are_told_apart():
    rule = Rule(effect="r > 0.9", weaker="s > 0", null="r > shuffled", requires="accuracy > 0.5")
    numbers = evidence(s=[1.0], shuffled=[1.0], r=[1.0], accuracy=[1.0], more=[1.0])
    assert rule.spoken_of(numbers) == (["accuracy", "r", "s"], ["shuffled"])
    assert rule.words["beyond its null"] == "r > shuffled"
