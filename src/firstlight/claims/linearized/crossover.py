"""A wide linear model against a narrow network, and the kernels that wide networks tend to."""

from dataclasses import dataclass, replace
from typing import ClassVar

import torch

from firstlight.claims.linearized.harder_tasks import cifar_plan
from firstlight.claims.linearized.plans import DESK, DESK_EXACT, DESK_HARD, PAPER, PUBLISHED_WIDTHS, SMOKE
from firstlight.claims.linearized.sweep import Sweep, label, sweep
from firstlight.claims.linearized.tasks import Task, parts_of
from firstlight.claims.linearized.twins import Plan, varied
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.estimators import CNTKClassifier, ConvRFMClassifier
from firstlight.figures import Curve, Figure, curves


@dataclass(frozen=True, kw_only=True)
class Crossover(Result):
    """Narrow networks and wide linear models.

    Parameters
    ----------
    objects : Sweep
        Twins on CIFAR-10.
    digits : Sweep
        Twins on digits at the two widths compared.
    closing : Sweep
        Twins on few digits by width, with the exact solve.
    cntk, convrfm : float
        Test accuracy of the kernels on the same few digits.
    """

    objects: Sweep
    digits: Sweep
    closing: Sweep
    cntk: float
    convrfm: float

    def lead(self, column: int) -> float:
        """Accuracy of the widest linear model on CIFAR-10 minus that of LeNet at width 1."""
        return self.objects.mean("linear", column)[-1] - float(self.objects.at(1.0).network[:, column].mean())

    @property
    def digit_lead(self) -> float:
        """Test accuracy of the wide linear model on digits minus that of the narrow network."""
        return self.digits.mean("linear")[-1] - self.digits.mean("network")[0]


def kernel_lines(task: Task, *, seed: int, depth: int, size: int) -> tuple[float, float]:
    """Test accuracy of the fixed and of the learned kernel on the images of the twins."""
    train, valid, test = parts_of(task, seed=seed)
    fixed = CNTKClassifier(depth=depth, size=size).fit(train.x, train.y.numpy())
    learned = ConvRFMClassifier(depth=depth, size=size, rounds=2)
    learned.fit(torch.cat([train.x, valid.x]), torch.cat([train.y, valid.y]).numpy())
    scores = [test.y.numpy() == machine.predict(test.x) for machine in (fixed, learned)]
    return float(scores[0].mean()), float(scores[1].mean())


@study("lin.fig4.crossover")
class WideLinearNarrowNetwork:
    """Does a wide linearised network beat a narrow network, and where do both end as width grows?

    The figure goes beyond the paper: widths until the gap closes, beside the convolutional tangent
    kernel (the limit of infinite width) and the ConvRFM (a kernel that learns features).
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        plan: Plan = DESK
        hard: Plan = DESK_HARD
        few: Plan = DESK_EXACT
        objects: str = "cifar10"
        object_widths: tuple[float, ...] = (0.5, 1.0, 2.0)  # trained for another study too
        digit_widths: tuple[float, ...] = (0.25, 4.0)  # trained for another study too
        few_widths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0)
        depth: int = 3  # of the kernels
        size: int = 3
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            plan=SMOKE, hard=SMOKE, few=replace(SMOKE, solve=True), objects="photos", object_widths=(0.5, 1.0),
            few_widths=(0.25, 1.0), digit_widths=(0.25, 1.0), depth=2,
        ),
        "desk": Config(),
        "paper": Config(plan=PAPER, hard=PAPER, object_widths=(0.5, *PUBLISHED_WIDTHS), few_widths=PUBLISHED_WIDTHS),
    }  # fmt: skip

    @staticmethod
    def run(cfg: Config) -> Crossover:
        """Twins on three sets of images, then the kernels."""
        plan, hard, few = (replace(p, seed=cfg.seed) for p in (cfg.plan, cfg.hard, cfg.few))
        cntk, convrfm = kernel_lines(few.task, seed=cfg.seed, depth=cfg.depth, size=cfg.size)
        return Crossover(
            objects=sweep("CIFAR-10", varied(cifar_plan(hard, cfg.objects), cfg.object_widths)),
            digits=sweep("digits", varied(plan, cfg.digit_widths)),
            closing=sweep("few digits", varied(few, cfg.few_widths)),
            cntk=cntk,
            convrfm=convrfm,
        )

    @staticmethod
    def figure(result: Crossover) -> Figure:
        """Accuracy on few digits against width, with the kernels as lines."""
        flat = torch.ones(1, len(result.closing.widths), dtype=torch.float64)
        return curves(
            [
                *result.closing.curves(),
                Curve(name="CNTK", values=result.cntk * flat, role="null"),
                Curve(name="ConvRFM", values=result.convrfm * flat, role="other"),
            ],
            title="Width until the gap closes, and the kernels beyond",
            alt="Test accuracy of network, linearisation and exact solve against width, kernels as lines",
            x="width factor",
            y="test accuracy",
            at=result.closing.widths,
            log_x=True,
        )

    rules: ClassVar = {
        "lin.fig4.crossover": Rule(
            measured=lambda r: {
                f"CIFAR-10: linearised {label(r.objects.widths[-1])} minus LeNet x1, train": r.lead(0),
                f"CIFAR-10: linearised {label(r.objects.widths[-1])} minus LeNet x1, test": r.lead(1),
                f"digits: linearised {label(r.digits.widths[-1])} minus LeNet "
                f"{label(r.digits.widths[0])}": r.digit_lead,
            },
            reproduced=lambda r: r.objects.widths[-1] >= 60 and min(r.lead(0), r.lead(1)) > 0,
            partly=lambda r: r.digit_lead >= -0.01,
            null=lambda r: {
                "few digits, CNTK": r.cntk,
                "few digits, ConvRFM": r.convrfm,
                **r.closing.by_width(
                    "few digits, exact gap", [float(t.exact_gap.mean()) for t in r.closing.rows]
                ),
                **r.closing.by_width("few digits, SGD gap", [float(t.gap.mean()) for t in r.closing.rows]),
            },
            note="the kernels are the 3 x 3, three-layer ones of the theme feature_ansatz, not the limit of LeNet "
            "itself; ConvRFM also sees the validation images; like the shifts, searched at full length after a first "
            "run whose short search had left the networks untrained",
        )
    }
