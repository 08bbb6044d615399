"""The same twins in single and in double precision."""

from dataclasses import dataclass, replace
from typing import ClassVar

from firstlight.claims.linearized.plans import DESK_BINARY, PAPER, SMOKE
from firstlight.claims.linearized.sweep import Sweep, label, sweep
from firstlight.claims.linearized.twins import Plan, varied
from firstlight.claims.spread import sd
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Dots, Figure, dots

MODELS = ("network", "linear")
FEW = replace(DESK_BINARY, task=replace(DESK_BINARY.task, n=500, n_test=1000), epochs=20, solve=False)


@dataclass(frozen=True, kw_only=True)
class Precision(Result):
    """Twins in float32 and in float64, from the same numbers."""

    single: Sweep
    double: Sweep

    def difference(self, model: str, width: int) -> float:
        """Test accuracy in double minus single precision, mean over seeds."""
        return self.double.mean(model)[width] - self.single.mean(model)[width]

    @property
    def largest(self) -> float:
        """Largest absolute difference over models and widths."""
        return max(abs(self.difference(m, i)) for m in MODELS for i in range(len(self.single.widths)))


@study("lin.precision")
class DoublePrecision:
    """Does double precision change what is found about linearised networks?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        plan: Plan = FEW
        widths: tuple[float, ...] = (0.25, 1.0)
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            plan=replace(SMOKE, task=replace(SMOKE.task, binary=True), rates=(0.01,)), widths=(0.25,)
        ),
        "desk": Config(),
        "paper": Config(plan=replace(PAPER, seeds=1), widths=(1.0, 2.0, 5.0, 10.0)),
    }

    @staticmethod
    def run(cfg: Config) -> Precision:
        """Twins of equal start and order, twice."""
        plan = replace(cfg.plan, seed=cfg.seed)
        return Precision(
            single=sweep("single precision", varied(plan, cfg.widths)),
            double=sweep("double precision", varied(replace(plan, double=True), cfg.widths)),
        )

    @staticmethod
    def figure(result: Precision) -> Figure:
        """Accuracies side by side."""
        names = [f"{m} {label(w)}" for m in MODELS for w in result.single.widths]
        series = [
            Dots.of(one.name, [column for m in MODELS for column in one.accuracy(m).T], role=role)
            for one, role in ((result.single, "random labels"), (result.double, "trained"))
        ]
        return dots(
            names,
            series,
            title="Single and double precision",
            alt="Test accuracy of both models at each width in both precisions",
            y="test accuracy",
        )

    rules: ClassVar = {
        "lin.precision": Rule(
            measured=lambda r: {
                f"{m} {label(w)}, double minus single": r.difference(m, i)
                for m in MODELS
                for i, w in enumerate(r.single.widths)
            },
            reproduced=lambda r: r.largest < 0.003,
            partly=lambda r: r.largest < 0.01,
            null=lambda r: {
                f"{m} {label(w)}, sd over seeds": sd(r.single.accuracy(m)[:, i])
                for m in MODELS
                for i, w in enumerate(r.single.widths)
            },
        )
    }
