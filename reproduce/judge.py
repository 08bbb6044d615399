"""How numbers become verdicts: a rule stands in claims.yaml as text and is executed as it stands there.

The grammar of a rule::

    rule    := rule "and" rule | rule "or" rule | "(" rule ")" | compare | every
    compare := number (REL number)+       REL: < <= > >=; a chain a <= x <= b means "and"
    every   := "all(" name REL number ")" | ("rising" | "falling") "(" name ["," tolerance] ")"
    number  := literal | name | name "[" point "]" | number OP number | "-" number | "(" number ")"
             | "abs(" number ")" | ("mean" | "min" | "max") "(" series ")"
             | "share(" name (">" | "<") number ")"            OP: + - * /
    series  := name | name "[" point "," point ... "]"
    point   := int | float | "string" | first | last           (the first and the last that ran)
    name    := what the study measured, see `identifier`: one number, or a series over points

A number is one value per seed. A comparison looks at left - right, seed by seed: what the seeds share (images, initial
weights) cancels. It holds if the whole 95 % interval of the mean difference lies on its side of 0, fails if it lies on
the other, and is open otherwise. For exact claims every seed counts by itself, and nothing is open.
"""

import ast
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from functools import cache
from itertools import pairwise

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from reproduce.evidence import Evidence, Point, estimate

REPRODUCED, PARTLY, NOT_REPRODUCED = "reproduced", "partly", "not reproduced"
INCONCLUSIVE, NOT_RUN = "inconclusive", "not run"
VERDICTS = (REPRODUCED, PARTLY, NOT_REPRODUCED, INCONCLUSIVE, NOT_RUN)
"""Whether the effect appears, most welcome first."""

BEYOND, NOT_BEYOND, NO_NULL = "beyond", "not beyond", "none possible"
NULL_VERDICTS = (BEYOND, NOT_BEYOND, NO_NULL)
"""Whether the effect exceeds what its control gives."""

# ---------------------------------------------------------------- rules


@dataclass(frozen=True, kw_only=True)
class Rule:
    """The judgement of one claim, as claims.yaml words it; a text outside the grammar is refused at once.

    Parameters
    ----------
    effect : str
        What the paper states; if it holds, the claim is reproduced.
    weaker : str
        A weaker form, or one about the points that a desk can reach; if it holds and `effect` does not, the claim is
        reproduced partly. Empty if there is none.
    null : str
        That the effect exceeds what its control gives; empty if no control is possible.
    requires : str
        What must hold before anything is judged, such as that the networks were trained.
    """

    effect: str
    weaker: str = ""
    null: str = ""
    requires: str = ""

    def __post_init__(self) -> None:
        for text in self.words.values():
            if text:
                _parsed(text)

    @property
    def words(self) -> dict[str, str]:
        """The rule as executed, part by part."""
        return {
            "reproduced": self.effect,
            "partly": self.weaker,
            "beyond its null": self.null,
            "requires": self.requires,
        }

    def spoken_of(self, evidence: Evidence) -> tuple[list[str], list[str]]:
        """Measurements that the rule names, and those that only its null names, in alphabetical order."""
        own = set().union(*(names_in(text) for text in (self.effect, self.weaker, self.requires)))
        found = sorted(name for name in evidence.values if identifier(name) in own | names_in(self.null))
        is_own = {name: identifier(name) in own for name in found}
        return [name for name in found if is_own[name]], [name for name in found if not is_own[name]]


@cache
def identifier(name: str) -> str:
    """How rules spell the name of a measurement.

    Examples
    --------
    >>> identifier("accuracy of ReLU networks, p = n"), identifier("95th percentile")
    ('accuracy_of_relu_networks_p_n', '_95th_percentile')
    """
    word = re.sub(r"[^a-z0-9]+", "_", name.lower()).strip("_")
    return f"_{word}" if word[:1].isdigit() else word


# ---------------------------------------------------------------- judgement


class Outcome(Enum):
    """What the evidence says about a text; the words complete "that ..."."""

    HOLDS = "holds"
    FAILS = "does not hold"
    OPEN = "is open: the bound lies inside the interval"
    MISSING = "was not measured"


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
        The text that decided.
    reason : str
        Why the verdict is not the plain one: missing points, open intervals, failed requirements.
    outcomes : dict of str to Outcome
        What the evidence says about every part of the rule that has a text, also about those that did not decide; the
        keys are those of :attr:`Rule.words`.
    """

    verdict: str
    null_verdict: str
    applied: str
    reason: str = ""
    outcomes: dict[str, Outcome] = field(default_factory=dict)


def judge(rule: Rule, evidence: Evidence, *, exact: bool = False) -> Judgement:
    """Apply a rule to the evidence.

    If the published text holds, the claim is reproduced. If it does not, or is open, or a point that it names did not
    run, the claim is reproduced partly if the weaker text holds. A bound inside an interval that decides gives
    "inconclusive".

    Parameters
    ----------
    rule : Rule
        Of the claim.
    evidence : Evidence
        Measurements over seeds.
    exact : bool, default False
        Whether every seed must satisfy the rule by itself, without any interval.
    """
    outcomes = {part: outcome(text, evidence, exact=exact) for part, text in rule.words.items() if text}
    required = outcomes.get("requires", Outcome.HOLDS)
    if required is not Outcome.HOLDS:
        verdict, applied = NOT_RUN, rule.requires
        reason = f"requires {rule.requires}; that {required.value}"
    else:
        verdict, applied, reason = _effect(rule, evidence, outcomes)
    null_verdict = "" if verdict == NOT_RUN else NO_NULL
    if rule.null and verdict != NOT_RUN:
        null_verdict = BEYOND if outcomes["beyond its null"] is Outcome.HOLDS else NOT_BEYOND
    return Judgement(
        verdict=verdict, null_verdict=null_verdict, applied=applied, reason=reason, outcomes=outcomes
    )


def _effect(rule: Rule, evidence: Evidence, outcomes: Mapping[str, Outcome]) -> tuple[str, str, str]:
    """Verdict, text that decided, and reason."""
    effect, weaker = outcomes["reproduced"], outcomes.get("partly")
    is_open = "one seed has no interval" if len(evidence.seeds) == 1 else "the bound lies inside the interval"
    if effect is Outcome.HOLDS:
        return REPRODUCED, rule.effect, ""
    if effect is Outcome.OPEN:
        if weaker is Outcome.HOLDS:
            return PARTLY, rule.weaker, "the full effect is open"
        return INCONCLUSIVE, rule.effect, is_open
    none = NOT_RUN if effect is Outcome.MISSING else NOT_REPRODUCED
    lacking = ", ".join(missing(rule.effect, evidence))
    if weaker is None:
        return none, rule.effect, f"did not run: {lacking}" if lacking else ""
    if weaker is Outcome.MISSING:
        return none, rule.weaker, f"did not run: {', '.join(missing(rule.weaker, evidence))}"
    reasons = [f"the published rule needs what did not run: {lacking}"] if lacking else []
    reasons += [f"the weaker rule is open: {is_open}"] if weaker is Outcome.OPEN else []
    verdicts = {Outcome.HOLDS: PARTLY, Outcome.FAILS: NOT_REPRODUCED, Outcome.OPEN: INCONCLUSIVE}
    return verdicts[weaker], rule.weaker, "; ".join(reasons)


# ---------------------------------------------------------------- evaluation


def outcome(text: str, evidence: Evidence, *, exact: bool = False) -> Outcome:
    """Evaluate a text; one missing measurement makes the whole of it missing, also inside "or"."""
    evaluation = _Evaluation(evidence, exact)
    told = evaluation.rule(_parsed(text).body)
    return Outcome.MISSING if evaluation.missing else told


def missing(text: str, evidence: Evidence) -> list[str]:
    """Measurements that a text needs and the evidence does not hold, as the text spells them."""
    evaluation = _Evaluation(evidence, exact=False)
    evaluation.rule(_parsed(text).body)
    return sorted(evaluation.missing)


@cache
def names_in(text: str) -> frozenset[str]:
    """Measurements that a text names."""
    if not text:
        return frozenset()
    called = {node.func for node in ast.walk(_parsed(text)) if isinstance(node, ast.Call)}
    points = {node.slice for node in ast.walk(_parsed(text)) if isinstance(node, ast.Subscript)}
    names = (node for node in ast.walk(_parsed(text)) if isinstance(node, ast.Name))
    return frozenset(node.id for node in names if node not in called | points)


@cache
def _parsed(text: str) -> ast.Expression:
    """The syntax tree of a text, after one evaluation on nothing: whatever the grammar lacks is refused there."""
    try:
        tree = ast.parse(text.strip(), mode="eval")
    except SyntaxError as error:
        raise InvalidInput(f"The rule {text!r} cannot be read: {error.msg}.") from error
    _Evaluation(Evidence(seeds=(0,)), exact=False).rule(tree.body)
    return tree


OPERATIONS: dict[type[ast.operator], Callable[[Tensor, Tensor], Tensor]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
}
REDUCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "mean": lambda table: table.mean(1),
    "min": lambda table: table.amin(1),
    "max": lambda table: table.amax(1),
}
SIGNS: dict[str, float] = {"rising": 1.0, "falling": -1.0}


class _Evaluation:
    """One walk through a syntax tree; what is lacking is noted, and stands as NaN until the walk is over."""

    def __init__(self, evidence: Evidence, exact: bool) -> None:
        self.evidence = evidence
        self.exact = exact
        self.names = {identifier(name): name for name in evidence.values}
        self.missing: set[str] = set()

    # -- what holds or fails

    def rule(self, node: ast.expr) -> Outcome:
        match node:
            case ast.BoolOp(op=ast.And(), values=parts):
                return _joined([self.rule(part) for part in parts], first=Outcome.FAILS, last=Outcome.HOLDS)
            case ast.BoolOp(op=ast.Or(), values=parts):
                return _joined([self.rule(part) for part in parts], first=Outcome.HOLDS, last=Outcome.FAILS)
            case ast.Compare(left=left, ops=relations, comparators=others):
                numbers = [self.number(part) for part in (left, *others)]
                return _all(map(self.compared, numbers, relations, numbers[1:]))
            case ast.Call(
                func=ast.Name(id="all"), args=[ast.Compare(left=series, ops=[relation], comparators=[other])]
            ):
                bound = self.number(other)
                return _all(self.compared(row, relation, bound) for row in self.series(series))
            case ast.Call(
                func=ast.Name(id=("rising" | "falling") as word), args=[ast.Name() as series, *rest]
            ) if len(rest) < 2:
                allowed = -self.number(rest[0]) if rest else self.constant(0.0)
                steps = pairwise(self.series(series, least=2))
                return _all(self.compared(SIGNS[word] * (b - a), ast.Gt(), allowed) for a, b in steps)
        raise _refused(node, "a comparison")

    def compared(self, left: Tensor, relation: ast.cmpop, right: Tensor) -> Outcome:
        """On which side of 0 the difference lies, by its interval or by each of its values."""
        gap = estimate(left - right)
        low, high = (min(gap.seeds), max(gap.seeds)) if self.exact else (gap.low, gap.high)
        match relation:
            case ast.Lt() | ast.LtE():
                low, high = -high, -low
            case ast.Gt() | ast.GtE():
                pass
            case _:
                raise InvalidInput(f"A rule compares by <, <=, > or >=; got {type(relation).__name__}.")
        is_strict = isinstance(relation, ast.Lt | ast.Gt)
        if low > 0 or (low == 0 and not is_strict):
            return Outcome.HOLDS
        if self.exact or high < 0 or (high == 0 and is_strict):
            return Outcome.FAILS
        return Outcome.OPEN

    # -- numbers, one value per seed

    def number(self, node: ast.expr) -> Float[Tensor, " seeds"]:
        match node:
            case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
                return self.constant(value)
            case ast.Name(id=name):
                return self.value(name, None, name)
            case ast.Subscript(value=ast.Name(), slice=point) if not isinstance(point, ast.Tuple):
                (row,) = self.series(node)
                return row
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self.number(operand)
            case ast.BinOp(left=left, op=sign, right=right) if type(sign) in OPERATIONS:
                return OPERATIONS[type(sign)](self.number(left), self.number(right))
            case ast.Call(func=ast.Name(id="abs"), args=[operand]):
                return self.number(operand).abs()
            case ast.Call(func=ast.Name(id=("mean" | "min" | "max") as word), args=[series]):
                return REDUCTIONS[word](torch.stack(self.series(series), dim=1))
            case ast.Call(
                func=ast.Name(id="share"),
                args=[ast.Compare(left=series, ops=[relation], comparators=[other])],
            ):
                bound = self.number(other)[:, None]
                table = torch.stack(self.series(series), dim=1)
                if isinstance(relation, ast.Gt):
                    return (table > bound).double().mean(1)
                if isinstance(relation, ast.Lt):
                    return (table < bound).double().mean(1)
        raise _refused(node, "a number")

    def series(self, node: ast.expr, *, least: int = 1) -> list[Float[Tensor, " seeds"]]:
        """A row for each point that is named, or that ran; a single row of NaN if there are too few."""
        match node:
            case ast.Name(id=name):
                rows = [row for point, row in self.points(name).items() if point is not None]
                if len(rows) >= least:
                    return rows
                self.missing.add(name)
                return [self.constant(float("nan"))]
            case ast.Subscript(value=ast.Name(id=name), slice=where):
                parts = where.elts if isinstance(where, ast.Tuple) else [where]
                return [self.value(name, self.point(name, p), f"{name}[{ast.unparse(p)}]") for p in parts]
        raise _refused(node, "a measurement")

    def point(self, name: str, node: ast.expr) -> Point:
        match node:
            case ast.Name(id=("first" | "last") as end):
                ran = [point for point in self.points(name) if point is not None]
                return ran[0 if end == "first" else -1] if ran else f"the {end} of none"
            case ast.Constant(value=int() | float() | str() as value):
                return value
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                return -value
        raise _refused(node, "a point")

    def value(self, name: str, point: Point | None, words: str) -> Float[Tensor, " seeds"]:
        rows = self.points(name)
        if point in rows:
            return rows[point]
        self.missing.add(words)
        return self.constant(float("nan"))

    def points(self, name: str) -> Mapping[Point | None, Float[Tensor, " seeds"]]:
        return self.evidence.values[self.names[name]] if name in self.names else {}

    def constant(self, number: float) -> Float[Tensor, " seeds"]:
        return torch.full((len(self.evidence.seeds),), float(number), dtype=torch.float64)


def _joined(outcomes: Sequence[Outcome], *, first: Outcome, last: Outcome) -> Outcome:
    """The outcome that decides alone, if there; else open, if one is; else the other."""
    if first in outcomes:
        return first
    return Outcome.OPEN if Outcome.OPEN in outcomes else last


def _all(outcomes: Iterable[Outcome]) -> Outcome:
    return _joined(list(outcomes), first=Outcome.FAILS, last=Outcome.HOLDS)


def _refused(node: ast.expr, wanted: str) -> InvalidInput:
    return InvalidInput(
        f"{ast.unparse(node)!r} must be {wanted}, as the grammar in reproduce/judge.py has it."
    )
