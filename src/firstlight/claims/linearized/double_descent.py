"""Exact solutions where the number of equations passes the number of weights."""

from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.linearized.solved import solved
from firstlight.claims.linearized.tasks import Task, parts_of
from firstlight.claims.spread import sd
from firstlight.claims.study import Rule, study
from firstlight.core.parallel import map_tasks
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.models import build, parameter_count

DIGITS = Task(n_valid=200, n_test=2000, binary=True)


@dataclass(frozen=True, kw_only=True)
class DoubleDescent(Result):
    """Test accuracy of the exact solution by number of images, without and with the best ridge."""

    counts: tuple[int, ...]
    parameters: int
    majority: float
    least_norm: Float[Tensor, "seeds counts"]
    ridge: Float[Tensor, "seeds counts"]

    @property
    def ratios(self) -> tuple[float, ...]:
        """Weights over equations."""
        return tuple(self.parameters / n for n in self.counts)

    @property
    def worst_ratio(self) -> float:
        """Weights over equations where the mean test accuracy is lowest."""
        return self.ratios[int(self.least_norm.mean(0).argmin())]

    def at(self, n: int) -> float:
        """Mean test accuracy at the number of images nearest to `n`."""
        nearest = min(range(len(self.counts)), key=lambda i: abs(self.counts[i] - n))
        return float(self.least_norm.mean(0)[nearest])


def _case(case: tuple[int, int], *, task: Task, width: float) -> tuple[float, float]:
    n, seed = case
    parts = parts_of(replace(task, n=n), seed=seed)
    model = build("lenet", classes=1, shape=parts[0].shape, width=width, seed=seed)
    found = solved(model, *parts)
    return found.least_norm[1], found.ridge[1]


@study("lin.solver.double_descent")
class SolverAtThreshold:
    """Is the exact solution worst where there are as many weights as equations?

    Zero against the rest. A ridge chosen on validation images is the control: if the threshold itself
    were hard, it would not help.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        task: Task = DIGITS
        counts: tuple[int, ...] = (300, 600, 800, 1000, 1250, 1500, 3000)  # training images; p = 1014
        width: float = 0.125
        seeds: int = 3
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            task=Task(data="photos", n_valid=16, n_test=16, binary=True),
            counts=(16, 32),
            seeds=1,
            width=0.0625,
        ),
        "desk": Config(),
        "paper": Config(
            task=Task(n_valid=1000, n_test=10_000, binary=True),
            counts=(15_000, 30_000, 45_000, 50_000, 59_000),
            width=1.0,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> DoubleDescent:
        """Solve for every number of images and seed."""
        cases = [(n, s) for s in range(cfg.seed, cfg.seed + cfg.seeds) for n in cfg.counts]
        rows = map_tasks(partial(_case, task=cfg.task, width=cfg.width), cases, label="Exact solutions")
        table = torch.tensor(rows, dtype=torch.float64).reshape(cfg.seeds, len(cfg.counts), -1)
        test = parts_of(replace(cfg.task, n=cfg.counts[0]), seed=cfg.seed)[2]
        return DoubleDescent(
            counts=cfg.counts,
            parameters=parameter_count(
                build("lenet", classes=1, shape=test.shape, width=cfg.width, device="meta")
            ),
            majority=test.majority,
            least_norm=table[..., 0],
            ridge=table[..., 1],
        )

    @staticmethod
    def figure(result: DoubleDescent) -> Figure:
        """Test error against equations per weight."""
        return curves(
            [
                Curve(name="least norm", values=1 - result.least_norm),
                Curve(name="best ridge", values=1 - result.ridge, role="theory"),
            ],
            title="The exact solution is worst at the interpolation threshold",
            alt="Test error of the exact solution against equations per weight, with and without ridge",
            x="equations per weight",
            y="test error",
            at=[1 / ratio for ratio in result.ratios],
            log_x=True,
        )

    rules: ClassVar = {
        "lin.solver.double_descent": Rule(
            measured=lambda r: {
                **{
                    f"test at p/n = {ratio:.3g}": float(v)
                    for ratio, v in zip(r.ratios, r.least_norm.mean(0), strict=True)
                },
                "p/n of the worst": r.worst_ratio,
            },
            reproduced=lambda r: 0.8 <= r.worst_ratio <= 1.3,
            partly=lambda r: r.at(1000) < min(r.at(300), r.at(3000)),
            spread=lambda r: {
                f"test at p/n = {ratio:.3g}": sd(v) for ratio, v in zip(r.ratios, r.least_norm.T, strict=True)
            },
            null=lambda r: {
                "majority class": r.majority,
                **{
                    f"best ridge at p/n = {ratio:.3g}": float(v)
                    for ratio, v in zip(r.ratios, r.ridge.mean(0), strict=True)
                },
            },
        )
    }
