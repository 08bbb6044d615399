"""The findings of an inspection as numbers for machines: what a build can check and fail on."""

import math
import operator
import re
from collections.abc import Callable, Sequence

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight.measures.feature_ansatz.ansatz import TRAINED
from firstlight.questions.inspect.result import Inspection

RELATIONS: dict[str, Callable[[float, float], bool]] = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
CONDITION = re.compile(r"\s*(\w+)\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*$")


def finding_numbers(inspection: Inspection) -> dict[str, float]:
    """Numbers of an inspection by name.

    Parameters
    ----------
    inspection : Inspection
        What :func:`firstlight.questions.inspect.measure.inspect` returned.

    Returns
    -------
    dict of str to float
        `dead` and `duplicate` filters of all layers, `silent` layers, all of whose filters are dead, `unmeasured`
        layers, measured `layers`, `parameters`, `accuracy` and `chance` (NaN without labels), `above_null`: layers
        whose filters follow the gradients more than chance explains, `movement`: the largest relative distance of a
        layer from its initial weights, and `regime`: 0 lazy, 1 feature learning (NaN if unknown). If the model is no
        better than chance, all that depends on what it learned is NaN.
    """
    trained = [row for row in inspection.ansatz.rows if row.pair == TRAINED and not row.is_output]
    above = sum(row.pearson > float(row.null_pearson.max()) for row in trained if row.null_pearson.numel())
    moved = [change.distance for change in inspection.changes if math.isfinite(change.distance)]
    numbers = {
        "dead": float(sum(len(fault.dead) for fault in inspection.faults)),
        "silent": float(len(inspection.silent)),
        "duplicate": float(sum(fault.n_superfluous for fault in inspection.faults)),
        "unmeasured": float(len(inspection.unmeasured)),
        "layers": float(len(inspection.layers)),
        "parameters": float(inspection.n_parameters),
        "accuracy": inspection.accuracy,
        "chance": inspection.chance,
        "above_null": float(above),
        "movement": max(moved, default=math.nan) if inspection.has_own_initial else math.nan,
        "regime": math.nan if inspection.regime is None else inspection.regime.score,
    }
    return {**numbers, **dict.fromkeys(WITHHELD, math.nan)} if inspection.outcome.problem else numbers


def failures(inspection: Inspection, conditions: Sequence[str]) -> list[str]:
    """Say which conditions hold, one line each with what is behind it; empty if none does.

    In a test: ``assert not failures(firstlight.inspect(model, data), ["dead>0", "unmeasured>0"])``.

    Parameters
    ----------
    inspection : Inspection
        What :func:`firstlight.questions.inspect.measure.inspect` returned.
    conditions : sequence of str
        Such as "dead>0"; names as in :func:`finding_numbers`. A number that is unknown (NaN) fails any
        condition that names it: a check that cannot be made has not passed.
    """
    numbers = finding_numbers(inspection)
    lines = []
    for text in conditions:
        name, relation, bound = parsed_condition(text)
        value = numbers[name]
        if math.isnan(value):
            why = f". {inspection.outcome.problem}" if name in WITHHELD and inspection.outcome.problem else ""
            lines.append(f"{text}: {name} is unknown for this model and these images{why}")
        elif RELATIONS[relation](value, bound):
            lines.append(f"{text}: {name} is {value:g}{_behind(inspection, name)}")
    return lines


def parsed_condition(text: str) -> tuple[str, str, float]:
    """Split a condition into name, relation and bound, or say what it must look like.

    Examples
    --------
    >>> parsed_condition("dead > 0")
    ('dead', '>', 0.0)
    """
    match = CONDITION.match(text)
    try:
        bound = float(match[3]) if match else math.nan
    except ValueError:
        bound = math.nan
    if match is None or math.isnan(bound):
        raise InvalidInput(f"`fail_on` must read name, relation, number, such as 'dead>0'; got {text!r}.")
    if match[1] not in NAMES:
        raise unknown_name("finding", match[1], NAMES, hint=f"Known: {', '.join(NAMES)}.")
    return match[1], match[2], bound


NAMES = (
    "dead",
    "silent",
    "duplicate",
    "unmeasured",
    "layers",
    "parameters",
    "accuracy",
    "chance",
    "above_null",
    "movement",
    "regime",
)
"""Findings that a condition may name."""

WITHHELD = ("dead", "silent", "duplicate", "above_null", "movement", "regime")
"""Findings that mean nothing of a model at chance."""


def _behind(inspection: Inspection, name: str) -> str:
    """Where a finding comes from, so that nobody has to search the page."""
    if name == "dead":
        rows = [f"{f.name} ({', '.join(map(str, f.dead))})" for f in inspection.faults if f.dead]
    elif name == "silent":
        rows = [fault.name for fault in inspection.silent]
    elif name == "duplicate":
        rows = [f"{f.name} ({f.n_superfluous})" for f in inspection.faults if f.n_superfluous]
    elif name == "unmeasured":
        rows = [f"{layer} ({why})" for layer, why in inspection.unmeasured.items()]
    else:
        rows = []
    return f": {'; '.join(rows)}" if rows else ""
