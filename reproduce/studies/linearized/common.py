"""What the studies of this theme share: plans, so that pairs are trained once, and what is read from the pairs."""

import dataclasses
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.executor import map_tasks
from firstlight._internal.result import Result
from firstlight._internal.store.runs import RunSpec, Store
from firstlight.measures.linearized.tangent_kernel import ntk_gram
from firstlight.measures.linearized.tangent_kernel_summary import effective_rank
from firstlight.models import build, parameter_count
from reproduce.evidence import Series, by
from reproduce.studies.linearized.pairs import LongPlan, Pair, Plan, Task, parts_of, run_pairs

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

NIGHT_BINARY = replace(DESK_BINARY, task=Task(n=20_000, n_valid=1000, n_test=10_000, binary=True), epochs=200)
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


OUTPUTS = 10


@dataclass(frozen=True, kw_only=True)
class Case:
    """Everything that decides one kernel."""

    task: Task
    model: str
    width: float
    seed: int


@dataclass(frozen=True, kw_only=True)
class CaseSpectrum(Result):
    """Eigenvalues of one tangent kernel, largest first, and the number of weights behind them."""

    values: Float[Tensor, " rows"]
    weights: int

    @property
    def singular(self) -> Float[Tensor, " rows"]:
        """Singular values of the Jacobian."""
        return self.values.sqrt()

    @property
    def condition(self) -> float:
        """Largest over smallest singular value of the Jacobian."""
        return float(self.singular[0] / self.singular[-1].clamp(min=1e-300))


def spectrum(case: Case) -> CaseSpectrum:
    """Eigenvalues of the kernel with all outputs, in float64."""
    images = parts_of(case.task, seed=case.seed)[0].x.double()
    shape = tuple(images.shape[1:])
    network = build(case.model, classes=OUTPUTS, shape=shape, width=case.width, seed=case.seed).double()
    values = torch.linalg.eigvalsh(ntk_gram(network, images, outputs="full", show=False)).clamp(min=0).flip(0)
    return CaseSpectrum(values=values, weights=parameter_count(network))


def spectra(task: Task, widths: Sequence[float], *, model: str, seed: int) -> dict[float, CaseSpectrum]:
    """One kernel per width factor, or fetched from the store."""
    cases = [Case(task=task, model=model, width=float(width), seed=seed) for width in widths]
    rows = map_tasks(_stored, cases, label=f"Kernels of {model}")
    return dict(zip(widths, rows, strict=True))


def _stored(case: Case) -> CaseSpectrum:
    spec = RunSpec(what="linearized spectrum", config=dataclasses.asdict(case))
    kept: CaseSpectrum = Store().fetch_or_run(spec, lambda scratch: spectrum(case)).result
    return kept


def rank_readings(spectra: dict[float, CaseSpectrum], of: str) -> dict[str, Series]:
    """Effective ranks over the number of rows, by width factor.

    From the eigenvalues of the kernel and from their roots, the singular values of the Jacobian: the paper
    names the one and computes the other (E-84).
    """
    points = [factor(width) for width in spectra]
    rows = [len(one.values) for one in spectra.values()]
    ranks = {
        f"kernel rank of {of}": [effective_rank(one.values) for one in spectra.values()],
        f"Jacobian rank of {of}": [effective_rank(one.singular) for one in spectra.values()],
        f"rank of independent numbers like {of}": [
            gaussian_rank(m, one.weights) for m, one in zip(rows, spectra.values(), strict=True)
        ],
    }
    return {
        name: by(points, [r / m for r, m in zip(column, rows, strict=True)]) for name, column in ranks.items()
    }


def gaussian_rank(rows: int, weights: int) -> float:
    r"""Effective kernel rank of a rows x weights matrix of independent Gaussian numbers.

    Page's entropy: :math:`\log m - m / (2 n)` for m at most n, up to terms of order 1/n.
    """
    m, n = sorted((rows, weights))
    return math.exp(math.log(m) - m / (2 * n))


def gaussian_condition(rows: int, weights: int) -> float:
    r"""Condition number of a rows x weights matrix of independent Gaussian numbers, :math:`(1 + q) / (1 - q)`.

    The edges of the law of Marchenko and Pastur, with q² = rows / weights, the smaller over the larger.
    """
    m, n = sorted((rows, weights))
    q = math.sqrt(m / n)
    return (1 + q) / max(1 - q, 1e-300)
