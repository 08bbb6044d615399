"""How a result becomes a verdict: one declaration from which words, judgement and tests come.

Three questions get three answers: does the effect appear, does it exceed its null, and how far was the run from the
published setting. Only the first two are a rule's business; the third follows from the settings of the study.
"""

from dataclasses import dataclass

from firstlight.claims.conditions import Condition, Outcome
from firstlight.claims.evidence import Evidence

REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly", "not reproduced"
INCONCLUSIVE, NOT_RUN = "inconclusive", "not run"
VERDICTS = (REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN)
"""Whether the effect appears, most welcome first."""

BEYOND, NOT_BEYOND, NO_NULL = "beyond", "not beyond", "none possible"
NULL_VERDICTS = (BEYOND, NOT_BEYOND, NO_NULL)
"""Whether the effect exceeds what its control gives."""


@dataclass(frozen=True)
class NoNull:
    """States that no control can explain the effect away.

    Parameters
    ----------
    reason : str
        Why none is possible, as a sentence.
    """

    reason: str


@dataclass(frozen=True)
class Change:
    """Why a rule differs from the one that judged the first ledger.

    Parameters
    ----------
    reason : str
        What was wrong with the old rule.
    date : str
        Of the change, as year-month-day.
    """

    reason: str
    date: str = "2026-11-16"


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The judgement of one claim.

    Parameters
    ----------
    claim : str
        Identifier in claims.yaml.
    effect : Condition
        What the paper states; if it holds, the claim is reproduced.
    reduced : Condition, optional
        A weaker form, or one about the points that a desk can reach; if it holds and `effect` does not,
        the claim is reproduced partly. Never stricter than `effect`.
    null : Condition or NoNull
        That the effect exceeds what its control gives; or why there is no control.
    requires : Condition, optional
        What must hold before anything is judged, such as that the networks were trained. If it does not
        hold, the claim counts as not run.
    note : str
        Said beside the verdict.
    change : Change, optional
        Set when the rule differs from that of version 1 in more than its use of intervals.
    """

    claim: str
    effect: Condition
    reduced: Condition | None = None
    null: Condition | NoNull
    requires: Condition | None = None
    note: str = ""
    change: Change | None = None

    @property
    def conditions(self) -> tuple[Condition, ...]:
        """Every condition of the rule."""
        parts = (self.requires, self.effect, self.reduced, self.null)
        return tuple(part for part in parts if isinstance(part, Condition))

    @property
    def names(self) -> tuple[str, ...]:
        """Measurements of the effect, in alphabetical order."""
        own = self.effect.names | (self.reduced.names if self.reduced else frozenset())
        return tuple(sorted(own | (self.requires.names if self.requires else frozenset())))

    @property
    def null_names(self) -> tuple[str, ...]:
        """Measurements that only the null speaks of, in alphabetical order."""
        if isinstance(self.null, NoNull):
            return ()
        return tuple(sorted(self.null.names - set(self.names)))

    @property
    def words(self) -> dict[str, str]:
        """The rule as executed, in words."""
        return {
            "reproduced": self.effect.words,
            "partly": self.reduced.words if self.reduced else "",
            "beyond its null": self.null.words if isinstance(self.null, Condition) else "",
            "requires": self.requires.words if self.requires else "",
        }


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What a rule says about the evidence.

    Parameters
    ----------
    verdict : str
        One of :data:`VERDICTS`.
    null_verdict : str
        One of :data:`NULL_VERDICTS`; empty when nothing was judged.
    applied : str
        The condition that decided, in words.
    reason : str
        Why the verdict is not the plain one: missing points, open intervals, failed requirements.
    """

    verdict: str
    null_verdict: str
    applied: str
    reason: str = ""


def judge(rule: Rule, evidence: Evidence, *, exact: bool = False) -> Judgement:
    """Apply a rule to the evidence.

    The published condition decides if every point it names ran. If not, only the reduced condition is
    left, and the claim can be reproduced partly at best. A bound inside an interval gives "inconclusive".

    Parameters
    ----------
    rule : Rule
        The declaration.
    evidence : Evidence
        Measurements over seeds.
    exact : bool, default False
        Whether the claim is exact: then every seed must satisfy it by itself and no interval is used.
    """
    if rule.requires is not None:
        outcome = rule.requires.outcome(evidence, exact=exact)
        if outcome is not Outcome.HOLDS:
            return Judgement(
                verdict=NOT_RUN,
                null_verdict="",
                applied=rule.requires.words,
                reason=f"requires {rule.requires.words}; that {_tells(outcome)}",
            )
    verdict, applied, reason = _effect(rule, evidence, exact=exact)
    null_verdict = _null(rule, evidence, exact=exact) if verdict != NOT_RUN else ""
    return Judgement(verdict=verdict, null_verdict=null_verdict, applied=applied, reason=reason)


def _effect(rule: Rule, evidence: Evidence, *, exact: bool) -> tuple[str, str, str]:
    effect = rule.effect.outcome(evidence, exact=exact)
    if effect is Outcome.HOLDS:
        return REPRODUCED, rule.effect.words, ""
    if effect is Outcome.OPEN:
        return INCONCLUSIVE, rule.effect.words, "the bound lies inside the interval"
    missing = ", ".join(sorted(rule.effect.missing(evidence)))
    if rule.reduced is None:
        if effect is Outcome.MISSING:
            return NOT_RUN, rule.effect.words, f"did not run: {missing}"
        return NOT_REPRODUCED, rule.effect.words, ""
    why = f"the published rule needs what did not run: {missing}" if effect is Outcome.MISSING else ""
    reduced = rule.reduced.outcome(evidence, exact=exact)
    if reduced is Outcome.MISSING:
        lacking = ", ".join(sorted(rule.reduced.missing(evidence)))
        verdict = NOT_RUN if effect is Outcome.MISSING else NOT_REPRODUCED
        return verdict, rule.reduced.words, f"did not run: {lacking}"
    verdicts = {Outcome.HOLDS: PARTLY, Outcome.FAILS: NOT_REPRODUCED, Outcome.OPEN: INCONCLUSIVE}
    if reduced is Outcome.OPEN:
        why = "; ".join(filter(None, (why, "the bound of the reduced rule lies inside the interval")))
    return verdicts[reduced], rule.reduced.words, why


def _null(rule: Rule, evidence: Evidence, *, exact: bool) -> str:
    if isinstance(rule.null, NoNull):
        return NO_NULL
    outcome = rule.null.outcome(evidence, exact=exact)
    return BEYOND if outcome is Outcome.HOLDS else NOT_BEYOND


def _tells(outcome: Outcome) -> str:
    return {
        Outcome.FAILS: "does not hold",
        Outcome.OPEN: "is open: the bound lies inside the interval",
        Outcome.MISSING: "was not measured",
    }[outcome]
