"""Exact solutions where the number of equations passes the number of weights."""

import math
from dataclasses import dataclass, replace
from functools import partial

from firstlight._internal.executor import map_tasks
from firstlight.models.building import build, parameter_count
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.linearized.solved import solved
from reproduce.studies.linearized.tasks import Task, parts_of

ZERO_OR_NOT = Task(n_valid=200, n_test=2000, binary=True)


def _case(n: int, *, task: Task, width: float, seed: int) -> tuple[float, float]:
    parts = parts_of(replace(task, n=n), seed=seed)
    model = build("lenet", classes=1, shape=parts[0].shape, width=width, seed=seed)
    solution = solved(model, *parts)
    return solution.least_norm[1], solution.ridge[1]


@study("lin.solver.double_descent")
class DoubleDescent(Study):
    """Is the exact solution worst where there are as many weights as equations?

    Zero against the rest. A ridge chosen on validation images is the control: if the threshold itself
    were hard, it would not help.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """One narrow LeNet, solved for growing numbers of images."""

        task: Task = ZERO_OR_NOT
        counts: tuple[int, ...] = (300, 600, 800, 1000, 1250, 1500, 3000)  # training images; p = 1014
        width: float = 0.125
        seed: int = 0

    scales = {
        "smoke": Config(
            task=Task(data="photos", n_valid=16, n_test=16, binary=True), counts=(16, 32), width=0.0625
        ),
        "desk": Config(),
    }
    n_seeds = 10  # where the worst lies differs from seed to seed

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Solve for every number of images; the threshold is the one nearest to the number of weights."""
        case = partial(_case, task=cfg.task, width=cfg.width, seed=cfg.seed)
        plain, ridge = zip(*map_tasks(case, list(cfg.counts), label="Exact solutions"), strict=True)
        test = parts_of(replace(cfg.task, n=cfg.counts[0]), seed=cfg.seed)[2]
        model = build("lenet", classes=1, shape=test.shape, width=cfg.width, device="meta")
        ratios = [parameter_count(model) / n for n in cfg.counts]
        threshold = min(range(len(ratios)), key=lambda i: abs(math.log(ratios[i])))
        ends = (0, len(ratios) - 1)
        return {
            "solved": by(cfg.counts, plain),
            "solved with ridge": by(cfg.counts, ridge),
            "weights per image": by(cfg.counts, ratios),
            "weights per image where it is worst": ratios[min(range(len(ratios)), key=lambda i: plain[i])],
            "accuracy at the threshold": plain[threshold],
            "dip at the threshold": min(plain[i] for i in ends) - plain[threshold],
            "dip with ridge": min(ridge[i] for i in ends) - ridge[threshold],
            "majority class": test.majority,
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Test error against equations per weight."""
        return curves(
            [
                Curve(name="least norm", values=1 - evidence.table("solved")),
                Curve(name="best ridge", values=1 - evidence.table("solved with ridge"), role="theory"),
            ],
            title="The exact solution around the interpolation threshold",
            alt="Test error of the exact solution against equations per weight, with and without ridge",
            x="equations per weight",
            y="test error",
            at=(1 / evidence.table("weights per image")[0]).tolist(),
            log_x=True,
        )
