"""Statements about quantities, decided by intervals over seeds.

A condition holds when the whole interval lies on its side of the bound, fails when the whole interval lies on the
other side, and is open when the bound lies inside the interval or a measurement is missing.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import pairwise
from typing import Any

from firstlight.claims.evidence import Estimate, Evidence, estimate
from firstlight.claims.quantities import Missing, Quantity, constant, value


class Outcome(Enum):
    """What the evidence says about a condition."""

    HOLDS = "holds"
    FAILS = "fails"
    OPEN = "open"
    MISSING = "missing"


@dataclass(frozen=True, eq=False)
class Condition:
    """A statement that prints itself and can be decided.

    Parameters
    ----------
    words : str
        As printed in the ledger.
    decide : callable
        From evidence to an outcome; the flag says whether single values decide (exact claims) or the
        interval does.
    missing : callable
        From evidence to the measurements that are not there.
    names : frozenset of str
        Measurements it speaks of.
    parts : tuple of Condition
        What it is made of, if it is a conjunction or a disjunction.
    """

    words: str
    decide: Callable[[Evidence, bool], Outcome]
    missing: Callable[[Evidence], Missing]
    names: frozenset[str]
    parts: "tuple[Condition, ...]" = field(default=())

    def outcome(self, evidence: Evidence, *, exact: bool = False) -> Outcome:
        """Decide the condition; `exact` lets every seed's own value decide, without an interval."""
        if self.missing(evidence):
            return Outcome.MISSING
        return self.decide(evidence, exact)

    def __and__(self, other: "Condition") -> "Condition":
        return all_of(self, other)


def comparison(left: Quantity, relation: str, right: Quantity | float) -> Condition:
    """Return the condition ``left relation right``, decided on the difference seed by seed.

    Differences of the same seed, not of means: what the seeds share (images, initial weights) cancels.
    """
    other = right if isinstance(right, Quantity) else constant(right)
    difference = left - other

    def decide(evidence: Evidence, exact: bool) -> Outcome:
        return _side(estimate(difference.compute(evidence)), relation, exact=exact)

    return Condition(f"{left.words} {relation} {other.words}", decide, difference.missing, difference.names)


def _side(gap: Estimate, relation: str, *, exact: bool) -> Outcome:
    """Where a difference lies relative to 0, by its interval or by each of its values."""
    low, high = (min(gap.seeds), max(gap.seeds)) if exact else (gap.low, gap.high)
    if relation in ("<", "<="):
        low, high = -high, -low
    is_strict = relation in ("<", ">")
    if low > 0 or (low == 0 and not is_strict):
        return Outcome.HOLDS
    if high < 0 or (high == 0 and is_strict):
        return Outcome.FAILS
    return Outcome.FAILS if exact else Outcome.OPEN


def within(quantity: Quantity, target: float, *, tolerance: float) -> Condition:
    """Return the condition that a quantity lies within `tolerance` of `target`.

    Holds when the whole interval lies inside, fails when it lies wholly outside.

    Examples
    --------
    >>> within(value("gap", at=1), 4.67, tolerance=1).words
    'gap at 1 = 4.67 +- 1'
    """

    def decide(evidence: Evidence, exact: bool) -> Outcome:
        gap = estimate(quantity.compute(evidence) - target)
        low, high = (min(gap.seeds), max(gap.seeds)) if exact else (gap.low, gap.high)
        if -tolerance <= low and high <= tolerance:
            return Outcome.HOLDS
        if low > tolerance or high < -tolerance:
            return Outcome.FAILS
        return Outcome.FAILS if exact else Outcome.OPEN

    words = f"{quantity.words} = {target:g} +- {tolerance:g}"
    return Condition(words, decide, quantity.missing, quantity.names)


def all_of(*conditions: Condition) -> Condition:
    """Return the condition that all of them hold: fails if one fails, open if one is open."""
    return _joined(conditions, "and", failing=Outcome.FAILS, holding=Outcome.HOLDS)


def any_of(*conditions: Condition) -> Condition:
    """Return the condition that one of them holds: fails only if all fail."""
    return _joined(conditions, "or", failing=Outcome.HOLDS, holding=Outcome.FAILS)


def each(name: str, relation: str, bound: Quantity | float) -> Condition:
    """Return the condition that a series stands in `relation` to `bound` at every point that ran.

    Examples
    --------
    >>> each("Pearson", ">", 0.9).words
    'Pearson > 0.9 at every point'
    """
    other = bound if isinstance(bound, Quantity) else constant(bound)
    return _pointwise(
        f"{name} {relation} {other.words} at every point",
        name,
        lambda points: [comparison(value(name, at=point), relation, other) for point in points],
        extra=other,
    )


def rising(name: str, *, tolerance: float = 0.0) -> Condition:
    """Return the condition that a series rises from each point to the next, or falls by less than `tolerance`.

    Examples
    --------
    >>> rising("rank").words, falling("loss", tolerance=0.01).words
    ('rank rises from point to point', 'loss falls from point to point (by more than -0.01)')
    """
    return _monotone(name, "rises", 1.0, tolerance)


def falling(name: str, *, tolerance: float = 0.0) -> Condition:
    """Return the condition that a series falls from each point to the next, or rises by less than `tolerance`."""
    return _monotone(name, "falls", -1.0, tolerance)


def _monotone(name: str, word: str, sign: float, tolerance: float) -> Condition:
    def steps(points: tuple[Any, ...]) -> list[Condition]:
        return [sign * (value(name, at=b) - value(name, at=a)) > -tolerance for a, b in pairwise(points)]

    allowance = f" (by more than {-tolerance:g})" if tolerance else ""
    return _pointwise(f"{name} {word} from point to point{allowance}", name, steps, least=2)


def _pointwise(
    words: str,
    name: str,
    conditions: Callable[[tuple[Any, ...]], list[Condition]],
    *,
    least: int = 1,
    extra: Quantity | None = None,
) -> Condition:
    """Return a conjunction over the points of a series, which are known only with the evidence."""
    joined = cache(lambda points: all_of(*conditions(points)))  # the same points come again and again

    def decide(evidence: Evidence, exact: bool) -> Outcome:
        return joined(tuple(evidence.points(name))).decide(evidence, exact)

    def missing(evidence: Evidence) -> Missing:
        own = frozenset() if len(evidence.points(name)) >= least else frozenset({name})
        return own if extra is None else own | extra.missing(evidence)

    names = frozenset({name}) | (frozenset() if extra is None else extra.names)
    return Condition(words, decide, missing, names)


def _joined(conditions: tuple[Condition, ...], word: str, *, failing: Outcome, holding: Outcome) -> Condition:
    def decide(evidence: Evidence, exact: bool) -> Outcome:
        outcomes = [condition.decide(evidence, exact) for condition in conditions]
        if failing in outcomes:
            return failing
        return Outcome.OPEN if Outcome.OPEN in outcomes else holding

    def missing(evidence: Evidence) -> Missing:
        return frozenset().union(*(condition.missing(evidence) for condition in conditions))

    words = [f"({c.words})" if c.parts and word not in c.words else c.words for c in conditions]
    return Condition(
        f" {word} ".join(words),
        decide,
        missing,
        frozenset().union(*(condition.names for condition in conditions)),
        conditions,
    )
