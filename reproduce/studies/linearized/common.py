"""What the studies of this theme share: plans, so that pairs are trained once, and what is read from the pairs."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from reproduce.evidence import Series, by
from reproduce.studies.linearized.pairs import LongPlan, Pair, Plan, Task, run_pairs

SHIFT = 7  # pixels, as published
CIFAR_STEPS = (0.3, 0.6, 0.9)  # every 30 of 100 epochs the rate is divided by ten

SMOKE = Plan(
    task=Task(data="photos", n=24, n_valid=16, n_test=24),
    epochs=1,
    search_epochs=1,
    rates=(0.03, 0.01),
    decays=(5e-5,),
)
"""Seconds, no download; shows only that a study runs."""

SMOKE_BINARY = replace(SMOKE, task=replace(SMOKE.task, binary=True), rates=(0.01,), solve=True)

DESK = Plan()
"""2000 images and 8 epochs; the search gives every trial a quarter of that."""

DESK_HARD = replace(DESK, search_epochs=DESK.epochs)
"""Shifted digits: networks start on a plateau there, and a short search ranks nothing."""

DESK_FEW = Plan(task=Task(n=200, n_valid=150, n_test=1000), epochs=24, search_epochs=6, solve=True)
"""Few enough images to solve all outputs exactly."""

DESK_BINARY = Plan(
    task=Task(n=1900, n_valid=200, n_test=2000, binary=True),
    epochs=20,
    rates=(0.01,),
    decays=(5e-5,),
    solve=True,
)
"""The published rate of the tables, without search; as many steps as 1000 images had in 40 epochs."""

BINARY_WIDTHS = (0.17, 0.35, 0.7)  # 1.02, 4 and 15 weights per image of `DESK_BINARY`

NIGHT = LongPlan(
    task=Task(n=55_000, n_valid=5000, n_test=10_000),
    epochs=40,
    network_epochs=15,
    search_epochs=1,
    rates=(0.1, 0.01, 0.001),
    decays=(5e-5,),
)
"""All images and the published decay; the published rate, or a tenth where it diverges (E-85); fewer epochs."""

NIGHT_BINARY = Plan(
    task=Task(n=20_000, n_valid=1000, n_test=10_000, binary=True),
    epochs=200,
    rates=(0.01,),
    decays=(5e-5,),
    solve=True,
)
"""A third of the images, since the exact solve holds n x n numbers: 3.2 GB here, 28 GB for all of them.

Measured at x1: an epoch of 2000 images takes 0.74 CPU seconds for the pair, so that 200 of 20 000 take 0.4 CPU
hours. A solve decomposes a 20 000 x 20 000 matrix, about 10 n³ operations or 1 CPU hour (not measured).
"""


def cifar_plan(plan: Plan, data: str = "cifar10") -> Plan:
    """The plan on photographs, with the published schedule and no more images than there are."""
    task = replace(plan.task, data=data, n=min(plan.task.n, 50_000 - plan.task.n_valid))
    return replace(plan, task=task, milestones=CIFAR_STEPS)


DESK_CIFAR = cifar_plan(replace(DESK, epochs=24, search_epochs=8))
"""Eight epochs leave LeNet at 37 % of its own training images."""


def pairs_by_width(
    name: str, plan: Plan, widths: Sequence[float], *, seed: int, **of_task: Any
) -> list[Pair]:
    """Train one pair per width factor, with other settings of the task, or fetch them."""
    task = replace(plan.task, **of_task)
    plans = [replace(plan, task=task, width=float(width), seed=seed) for width in widths]
    return run_pairs(plans, label=f"Pairs on {name}")


def factor(width: float) -> int | float:
    """A width factor as rules name it: 60, not 60.0.

    Examples
    --------
    >>> factor(0.25), factor(60.0)
    (0.25, 60)
    """
    return int(width) if float(width).is_integer() else width


def by_width(pairs: Sequence[Pair], values: Sequence[float]) -> Series:
    """One number per pair, by width factor."""
    return by([factor(pair.width) for pair in pairs], values)


def readings(pairs: Sequence[Pair], name: str) -> dict[str, Series]:
    """Accuracies of pairs on the task `name`, by width factor; those of the exact solve where there is one."""
    columns = {
        f"network on {name}": [pair.network[1] for pair in pairs],
        f"linearised on {name}": [pair.linearised[1] for pair in pairs],
        f"gap on {name}": [pair.gap for pair in pairs],
        f"training accuracy of the network on {name}": [pair.network[0] for pair in pairs],
        f"training accuracy of the linearisation on {name}": [pair.linearised[0] for pair in pairs],
    }
    exact = [(pair.solved, pair.ridge) for pair in pairs if pair.solved and pair.ridge]
    if len(exact) == len(pairs):
        columns |= {
            f"solved on {name}": [least_norm[1] for least_norm, _ in exact],
            f"solved with ridge on {name}": [ridge[1] for _, ridge in exact],
            f"training accuracy of the solution on {name}": [least_norm[0] for least_norm, _ in exact],
        }
    return {column: by_width(pairs, values) for column, values in columns.items()}


def minus_published(series: Series, table: Mapping[Any, float]) -> Series:
    """Return a series minus what the paper prints, at the points that it prints and that ran.

    Examples
    --------
    >>> minus_published(by((0.5, 1), [0.2, 0.25]), {1: 0.25, 60: 0.1}).points
    (1,)
    """
    rows = zip(series.points, series.values.tolist(), strict=True)
    here = {point: value - table[point] for point, value in rows if point in table}
    return by(here, list(here.values()))


def common_widths(a: Series, b: Series) -> Series:
    """The first series minus the second, where both ran."""
    other = dict(zip(b.points, b.values.tolist(), strict=True))
    return minus_published(a, other)


WIDTH_AXES = ("width factor", "test accuracy")
ROLES = {
    "network": "trained",
    "linearised": "random labels",
    "solved": "other",
    "solved with ridge": "theory",
}


def accuracies(task: str, lines: Mapping[str, str]) -> dict[str, str]:
    """What is drawn against width: both models and exact solutions of a task, see :func:`readings`, and level lines."""
    return {**{f"{kind} on {task}": role for kind, role in ROLES.items()}, **lines}
