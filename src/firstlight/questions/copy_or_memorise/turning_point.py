"""Where depth, kernel or width turns a network from copying to memorising, found by bisection."""

import dataclasses
import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput, unknown_name
from firstlight._internal.executor import map_tasks
from firstlight._internal.result import Result
from firstlight._internal.store.runs import Store
from firstlight.maths.correlation import Interval
from firstlight.questions.copy_or_memorise.task import IdentityTask, run_identity_task

Factor = Literal["depth", "kernel", "width", "image_size"]


@dataclass(frozen=True, kw_only=True)
class Flip(Result):
    """Where the answer changes.

    Parameters
    ----------
    factor : str
        What was varied.
    brackets : tuple of tuple of 2 int or None
        For every seed, the two neighbouring values between which the leaning changes sign.
    interval : Interval or None
        The median over seeds; the range of n independent brackets covers the true median with probability
        ``1 - 2^(1-n)``, whatever the distribution.
    leanings : tuple of dict of str to float
        For every seed, the leaning at each value that was tried; positive copies.
    problems : tuple of str
        For every seed, why it has no bracket; empty if it has one.
    """

    factor: str
    brackets: tuple[tuple[int, int] | None, ...]
    interval: Interval | None
    leanings: tuple[dict[str, float], ...]
    problems: tuple[str, ...]


def leaning(identity: Float[Tensor, " r"], constant: Float[Tensor, " r"]) -> float:
    """Mean over the angles of cosine to the identity minus cosine to the constant: positive copies."""
    return float((identity - constant).mean())


def bisected(
    score: Callable[[int], float], low: int, high: int, *, step: int = 1
) -> tuple[tuple[int, int] | None, dict[int, float], str]:
    """Neighbouring values (`step` apart) between which a score changes sign, in O(log) evaluations.

    If the sign changes more than once, one of the changes is found.

    Examples
    --------
    >>> bisected(lambda v: 6.5 - v, 1, 20)[0]
    (6, 7)
    """
    if low >= high or (high - low) % step:
        raise InvalidInput(f"`high` must exceed `low` by a multiple of {step}; got {low} and {high}.")
    tried = {value: score(value) for value in (low, high)}
    if any(math.isnan(v) for v in tried.values()):
        return None, tried, f"training diverged at {low} or {high}"
    if (tried[low] > 0) == (tried[high] > 0):
        side = "copies" if tried[low] > 0 else "memorises"
        return None, tried, f"{side} at both {low} and {high}"
    while high - low > step:
        middle = low + (high - low) // step // 2 * step
        tried[middle] = score(middle)
        if math.isnan(tried[middle]):
            return None, tried, f"training diverged at {middle}"
        if (tried[middle] > 0) == (tried[low] > 0):
            low = middle
        else:
            high = middle
    return (low, high), tried, ""


def flip_point(
    task: IdentityTask,
    factor: Factor,
    *,
    low: int,
    high: int,
    seeds: int = 3,
    store: Store | None = None,
    n_jobs: int | None = None,
) -> Flip:
    """Find where a factor turns copying into memorising, seed by seed.

    Parameters
    ----------
    task : IdentityTask
        Everything else that decides; part of the answer.
    factor : Factor
        "depth", "kernel", "width" or "image_size".
    low, high : int
        Where to look; odd numbers for kernels. About log2(high - low) + 2 trainings a seed.
    seeds : int, default 3
        How many, from `task.seed` on.
    store : Store, optional
        Networks that are there already are not trained again.
    n_jobs : int, optional
        Seeds side by side.
    """
    if factor not in ("depth", "kernel", "width", "image_size"):
        raise unknown_name("factor", factor, ("depth", "kernel", "width", "image_size"))
    if seeds < 1:
        raise InvalidInput(f"`seeds` must be at least 1; got seeds={seeds}.")
    one = partial(_one_seed, task, factor, low, high, store)
    numbers = list(range(task.seed, task.seed + seeds))
    outcomes = map_tasks(one, numbers, label=f"Where {factor} flips", n_jobs=n_jobs)
    brackets = tuple(bracket for bracket, _, _ in outcomes)
    return Flip(
        factor=factor,
        brackets=brackets,
        interval=_median([b for b in brackets if b is not None]),
        leanings=tuple({str(v): s for v, s in sorted(tried.items())} for _, tried, _ in outcomes),
        problems=tuple(problem for _, _, problem in outcomes),
    )


def _one_seed(
    task: IdentityTask, factor: str, low: int, high: int, store: Store | None, seed: int
) -> tuple[tuple[int, int] | None, dict[int, float], str]:
    def score(value: int) -> float:
        changed = dataclasses.replace(task, seed=seed, **{factor: value})  # type: ignore[arg-type]
        run = run_identity_task(changed, store=store)
        if run.findings is None:
            return math.nan
        return leaning(run.findings.response.identity, run.findings.response.constant)

    return bisected(score, low, high, step=2 if factor == "kernel" else 1)


def _median(brackets: list[tuple[int, int]]) -> Interval | None:
    if not brackets:
        return None
    middles = torch.tensor([(a + b) / 2 for a, b in brackets], dtype=torch.float64)
    return Interval(
        value=float(middles.median()),
        low=float(min(a for a, _ in brackets)),
        high=float(max(b for _, b in brackets)),
        level=1 - 2.0 ** (1 - len(brackets)),
    )
