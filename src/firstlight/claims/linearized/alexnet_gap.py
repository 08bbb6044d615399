"""AlexNet against its linearisation on photographs that need no account."""

from dataclasses import dataclass, replace
from typing import ClassVar

from firstlight.claims.linearized.plans import SMOKE
from firstlight.claims.linearized.sweep import Sweep, label, sweep
from firstlight.claims.linearized.tasks import Task
from firstlight.claims.linearized.twins import Plan, varied
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Figure, curves

SNAKES = "./snakes"
"""A folder of ten class folders of ImageNet, which the user must bring."""

PHOTOGRAPHS = Plan(
    task=Task(data="photos", n=1000, n_valid=300, n_test=1000, side=64),
    model="alexnet",
    epochs=10,
    search_epochs=3,
    rates=(0.3, 0.1, 0.03, 0.01),
    decays=(5e-6,),
)


@dataclass(frozen=True, kw_only=True)
class AlexNetGap(Result):
    """Twins by width, and whether they saw the published images."""

    sweep: Sweep
    published: bool


@study("lin.fig5.alexnet_gap")
class AlexNetAndLinearisation:
    """Is the gap of AlexNet as large on natural images as that of LeNet on hard tasks?

    AlexNet with a fraction of its width, on photographs enlarged to the smallest side it takes. Rate and
    decay are chosen for each model, as the paper does in the end.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        plan: Plan = PHOTOGRAPHS
        widths: tuple[float, ...] = (0.125, 0.25)
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            plan=replace(SMOKE, model="alexnet", task=replace(SMOKE.task, side=64)), widths=(0.03125, 0.0625)
        ),
        "desk": Config(),
        "paper": Config(
            plan=Plan(
                task=Task(data=SNAKES, n=12_000, n_valid=1000, n_test=500, side=224),
                model="alexnet",
                epochs=100,
                search_epochs=100,
                rates=(0.1, 1.0, 0.01, 0.001),
                decays=(5e-6, 5e-7, 5e-5, 5e-4, 5e-8),
                milestones=(0.3, 0.6, 0.9),
                seeds=5,
            ),
            widths=(1.0, 2.0, 3.0, 4.0),
        ),
    }

    @staticmethod
    def run(cfg: Config) -> AlexNetGap:
        """Train the twins."""
        plan = replace(cfg.plan, seed=cfg.seed)
        return AlexNetGap(
            sweep=sweep("photographs", varied(plan, cfg.widths)), published=plan.task.data == SNAKES
        )

    @staticmethod
    def figure(result: AlexNetGap) -> Figure:
        """Test accuracy against width."""
        return curves(
            result.sweep.curves(),
            title="AlexNet and its linearisation",
            alt="Test accuracy of AlexNet and of its linearisation against width",
            x="width factor",
            y="test accuracy",
            at=result.sweep.widths,
            log_x=True,
        )

    rules: ClassVar = {
        "lin.fig5.alexnet_gap": Rule(
            measured=lambda r: {
                **r.sweep.gaps(),
                **r.sweep.by_width("network", r.sweep.mean("network")),
                **r.sweep.by_width("linearised", r.sweep.mean("linear")),
            },
            reproduced=lambda r: r.published and all(0.15 <= r.sweep.gap(w) <= 0.25 for w in r.sweep.widths),
            partly=lambda r: all(r.sweep.gap(w) > 0.03 for w in r.sweep.widths),
            spread=lambda r: r.sweep.gap_spread(),
            null=lambda r: {
                "majority class": r.sweep.rows[0].majority,
                **{
                    f"rate of the {name} {label(row.width)}": setting[0]
                    for row in r.sweep.rows
                    for name, setting in (
                        ("network", row.network_setting),
                        ("linearisation", row.linear_setting),
                    )
                },
            },
            note="the snake classes of ImageNet are not obtainable: eight photographs at 64 x 64 and AlexNet at a "
            "fraction of its width instead, so that the published number cannot be judged",
        )
    }
