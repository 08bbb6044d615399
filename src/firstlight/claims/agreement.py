"""Whether a ledger made on another machine, or from other seeds, agrees with a recorded one."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from scipy.stats import binom

from firstlight.claims.ledger import Entry
from firstlight.claims.rules import NOT_RUN

LEVEL = 0.05  # share of numbers that chance alone puts outside their interval


@dataclass(frozen=True, kw_only=True)
class Disagreement:
    """One number, or one verdict, that differs from the recorded one.

    Parameters
    ----------
    claim, what : str
        The claim, and the name of the number or "verdict".
    recorded, here : str
        Both values; that of a number with the interval in which a repetition should lie.
    """

    claim: str
    what: str
    recorded: str
    here: str


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """Two ledgers compared, claim by claim and number by number.

    Parameters
    ----------
    n_claims, n_numbers : int
        Claims that both ledgers judge; numbers of which both have a mean and the recorded one a spread.
    verdicts, numbers : tuple of Disagreement
        What differs. Of the numbers, one in twenty may do so by chance if the seeds are others.
    """

    n_claims: int
    n_numbers: int
    verdicts: tuple[Disagreement, ...]
    numbers: tuple[Disagreement, ...]

    @property
    def is_more_than_chance(self) -> bool:
        """Whether more numbers lie outside than chance gives in 95 % of comparisons."""
        return self.n_numbers > 0 and float(binom.sf(len(self.numbers) - 1, self.n_numbers, LEVEL)) <= LEVEL


def agreement(recorded: Sequence[Entry], here: Sequence[Entry]) -> Agreement:
    r"""Compare the claims that two ledgers of one scale both judge.

    A mean of m seeds should lie in :math:`\bar x \pm t_{n-1} s \sqrt{1/n + 1/m}`, Student's interval for the mean of
    a repetition, given the n recorded seeds. The same seeds on another processor lie well inside.

    Parameters
    ----------
    recorded, here : sequence of Entry
        The ledger to compare with, and the one in question.
    """
    others = {entry.claim: entry for entry in here if entry.verdict != NOT_RUN}
    pairs = [
        (e, others[e.claim])
        for e in recorded
        if e.verdict != NOT_RUN and e.claim in others and e.scale == others[e.claim].scale
    ]
    verdicts = tuple(
        Disagreement(claim=old.claim, what="verdict", recorded=old.summary, here=new.summary)
        for old, new in pairs
        if old.summary != new.summary
    )
    judged = [
        (old.claim, name, estimate, {**new.measured, **new.null}[name])
        for old, new in pairs
        for name, estimate in {**old.measured, **old.null}.items()
        if name in new.measured or name in new.null
    ]
    judged = [row for row in judged if len(row[2]["seeds"]) > 1 and math.isfinite(float(row[3]["mean"]))]
    outside = []
    for claim, name, old, new in judged:
        low, high = repetition_interval(old["seeds"], old["interval"], m=len(new["seeds"]))
        if not low <= float(new["mean"]) <= high:
            outside.append(
                Disagreement(
                    claim=claim,
                    what=name,
                    recorded=f"{low:.4g} to {high:.4g}",
                    here=f"{float(new['mean']):.4g}",
                )
            )
    return Agreement(n_claims=len(pairs), n_numbers=len(judged), verdicts=verdicts, numbers=tuple(outside))


def repetition_interval(
    seeds: Sequence[float | str], interval: Sequence[float | str], *, m: int
) -> tuple[float, float]:
    """Return the interval for the mean of `m` further seeds, from that of the mean of those recorded.

    Numbers are recorded with four digits, so that the interval is never narrower than their rounding.

    Examples
    --------
    >>> low, high = repetition_interval([1.0, 2.0, 3.0], [-0.484, 4.484], m=3)
    >>> round(low, 2), round(high, 2)
    (-1.51, 5.51)
    """
    low, high = (float(bound) for bound in interval)
    middle = (low + high) / 2
    rounding = 5e-4 * max(abs(float(value)) for value in seeds)
    half = max((high - low) / 2 * math.sqrt(1 + len(seeds) / m), rounding)
    return middle - half, middle + half
