"""Where the gap is larger: shifted digits, photographs; and what width does to either model."""

from dataclasses import dataclass, replace
from typing import ClassVar

from firstlight.claims.linearized.plans import (
    CIFAR_STEPS,
    DESK,
    DESK_BINARY,
    DESK_EXACT,
    DESK_HARD,
    PAPER,
    PAPER_BINARY,
    PUBLISHED_WIDTHS,
    SHIFT,
    SMOKE,
)
from firstlight.claims.linearized.sweep import Sweep, sweep
from firstlight.claims.linearized.twins import Plan, varied
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Dots, Figure, dots

REPORTED_SHIFTED, REPORTED_CIFAR, REPORTED_CIFAR_WIDE = 0.2765, 0.2022, 0.1317


@dataclass(frozen=True, kw_only=True)
class HarderTasks(Result):
    """Twins by task and width; on few images with the exact solve; and of the binary tasks."""

    digits: Sweep
    shifted: Sweep
    objects: Sweep
    few: tuple[Sweep, ...]
    binary: Sweep
    binary_shifted: Sweep

    @property
    def tasks(self) -> tuple[Sweep, ...]:
        """The three tasks with all classes."""
        return self.digits, self.shifted, self.objects

    def solved(self) -> dict[str, float]:
        """Gaps on few images, as trained and as solved."""
        found = {}
        for one in self.few:
            row = one.rows[0]
            found[f"SGD gap, {one.name}"] = float(row.gap.mean())
            found[f"exact gap, {one.name}"] = float(row.exact_gap.mean())
        return found


def _common(a: Sweep, b: Sweep) -> list[float]:
    return [w for w in a.widths if w in b.widths]


@study("lin.fig3.shift_gap", "lin.fig4.cifar_gap", "lin.width_effect", "lin.difficulty")
class GapByTask:
    """Does the gap between a network and its linearisation grow with the difficulty of the task?

    On few images the linear model is also solved exactly: what then is left of the gap is not
    optimisation.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        plan: Plan = DESK
        hard: Plan = DESK_HARD
        few: Plan = DESK_EXACT  # at width 1
        binary: Plan = DESK_BINARY
        objects: str = "cifar10"
        widths: tuple[float, ...] = (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)  # digits; trained for another study too
        shifted_widths: tuple[float, ...] = (0.25, 1.0, 2.0)
        object_widths: tuple[float, ...] = (0.5, 1.0, 2.0)
        binary_widths: tuple[float, ...] = (0.125, 0.25, 0.5, 1.0)
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            plan=SMOKE, hard=SMOKE, few=replace(SMOKE, solve=True), objects="photos", widths=(0.25, 1.0),
            binary=replace(SMOKE, task=replace(SMOKE.task, binary=True), rates=(0.01,), solve=True),
            shifted_widths=(0.25, 1.0), object_widths=(0.5, 1.0), binary_widths=(0.125, 0.25),
        ),
        "desk": Config(),
        "paper": Config(
            plan=PAPER, hard=PAPER, binary=PAPER_BINARY, widths=(0.25, *PUBLISHED_WIDTHS),
            shifted_widths=PUBLISHED_WIDTHS, object_widths=(0.5, *PUBLISHED_WIDTHS), binary_widths=PUBLISHED_WIDTHS,
        ),
    }  # fmt: skip

    @staticmethod
    def run(cfg: Config) -> HarderTasks:
        """Every pair of twins is kept, so that studies share them."""
        plan, hard, few, binary = (
            replace(p, seed=cfg.seed) for p in (cfg.plan, cfg.hard, cfg.few, cfg.binary)
        )
        photographs = cifar_plan(hard, cfg.objects)
        few_photographs = cifar_plan(few, cfg.objects)
        return HarderTasks(
            digits=sweep("digits", varied(plan, cfg.widths)),
            shifted=sweep("shifted digits", varied(hard, cfg.shifted_widths, shift=SHIFT)),
            objects=sweep("CIFAR-10", varied(photographs, cfg.object_widths)),
            few=(
                sweep("few digits", varied(few, (1.0,))),
                sweep("few shifted digits", varied(few, (1.0,), shift=SHIFT)),
                sweep("few of CIFAR-10", varied(few_photographs, (1.0,))),
            ),
            binary=sweep("binary", varied(binary, cfg.binary_widths)),
            binary_shifted=sweep("binary shifted", varied(binary, cfg.binary_widths, shift=SHIFT)),
        )

    @staticmethod
    def figure(result: HarderTasks) -> Figure:
        """Gap at width 1 by task: trained on many images, on few, and solved exactly on few."""
        few = [one.rows[0] for one in result.few]
        return dots(
            [task.name for task in result.tasks],
            [
                Dots.of("trained by SGD", [task.at(1.0).gap for task in result.tasks]),
                Dots.of("trained by SGD, few images", [row.gap for row in few], role="random labels"),
                Dots.of("solved exactly, few images", [row.exact_gap for row in few], role="theory"),
            ],
            title="Gap between LeNet and its linearisation at width 1",
            alt="Gap in test accuracy by task, for SGD and for the exact solve",
            y="test accuracy, network minus linearisation",
        )

    rules: ClassVar = {
        "lin.fig3.shift_gap": Rule(
            measured=lambda r: r.shifted.gaps(),
            reproduced=lambda r: (
                abs(r.shifted.gap(1.0) - REPORTED_SHIFTED) <= 0.03
                and 60.0 in r.shifted.widths
                and r.shifted.gap(60.0) < 0.06
            ),
            partly=lambda r: all(r.shifted.gap(w) > r.digits.gap(w) for w in _common(r.shifted, r.digits)),
            spread=lambda r: r.shifted.gap_spread(),
            null=lambda r: {**r.digits.gaps(), **r.solved()},
            note="the same shifts in every epoch (E-91); in a first run the search lasted two epochs, in which the "
            "narrow network learned nothing and got a tiny rate; the null holds the gaps without shifts, and on few "
            "images the gap that is left when the linear model is solved exactly",
        ),
        "lin.fig4.cifar_gap": Rule(
            measured=lambda r: r.objects.gaps(),
            reproduced=lambda r: (
                abs(r.objects.gap(1.0) - REPORTED_CIFAR) <= 0.02
                and 60.0 in r.objects.widths
                and abs(r.objects.gap(60.0) - REPORTED_CIFAR_WIDE) <= 0.02
            ),
            partly=lambda r: r.objects.gap(0.5) > 0.03,
            spread=lambda r: r.objects.gap_spread(),
            null=lambda r: {**r.solved(), "majority class": r.objects.rows[0].majority},
            note="rate divided by ten three times, as published; on few images the gap that is left when the "
            "linear model is solved exactly; like the shifts, searched at full length after a first run whose short "
            "search had left the networks untrained",
        ),
        "lin.width_effect": Rule(
            measured=lambda r: {
                f"{task.name}, gain of {model}": task.gain(model)
                for task in (*r.tasks, r.binary)
                for model in ("linear", "network")
            },
            reproduced=lambda r: all(t.gain("linear") > 3 * t.gain("network") for t in r.tasks),
            partly=lambda r: r.binary.gain("linear") > r.binary.gain("network"),
            null=lambda r: {"binary, gain of the exact solve": r.binary.gain("ridge")},
        ),
        "lin.difficulty": Rule(
            measured=lambda r: {
                **{f"{t.name} gap x1": t.gap(1.0) for t in r.tasks},
                **r.binary.gaps(),
                **r.binary_shifted.gaps(),
            },
            reproduced=lambda r: r.digits.gap(1.0) < min(r.shifted.gap(1.0), r.objects.gap(1.0)),
            partly=lambda r: all(
                r.binary_shifted.gap(w) > r.binary.gap(w) for w in r.binary.widths if w >= 0.25
            ),
            spread=lambda r: {**r.binary.gap_spread(), **r.binary_shifted.gap_spread()},
            null=lambda r: {**r.solved(), "majority class, binary": r.binary.rows[0].majority},
            note="the snakes of ImageNet are not obtainable; the order of shifted digits and CIFAR-10 is not judged; "
            "like the shifts, searched at full length after a first run whose short search had left the networks "
            "untrained",
        ),
    }


def cifar_plan(plan: Plan, data: str) -> Plan:
    """The plan on photographs, with the published schedule and no more images than there are."""
    task = replace(plan.task, data=data, n=min(plan.task.n, 50_000 - plan.task.n_valid))
    return replace(plan, task=task, milestones=CIFAR_STEPS)
