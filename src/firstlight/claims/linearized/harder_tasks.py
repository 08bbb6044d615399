"""Where the gap is larger: shifted digits, photographs; and what width does to either model."""

from dataclasses import dataclass, replace

from firstlight.claims.conditions import all_of, each, within
from firstlight.claims.evidence import Evidence, Measured, Series
from firstlight.claims.linearized.common import (
    BINARY_WIDTHS,
    DESK,
    DESK_BINARY,
    DESK_CIFAR,
    DESK_FEW,
    DESK_HARD,
    NIGHT,
    PAPER,
    PAPER_BINARY,
    PUBLISHED_WIDTHS,
    SHIFT,
    SMOKE,
    SMOKE_BINARY,
    cifar_plan,
    common_widths,
    minus_published,
    pairs_by_width,
    readings,
)
from firstlight.claims.linearized.pairs import Plan
from firstlight.claims.quantities import Quantity, at_end, lowest, value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import Study, study
from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure

TASKS = ("digits", "shifted digits", "CIFAR-10")
SHIFTED = {1: 0.2765, 60: 0.0391}  # published gaps
OBJECTS = {1: 0.2022, 60: 0.1317}


def gain(kind: str, task: str) -> Quantity:
    """What the published range of widths adds to the test accuracy."""
    return value(f"{kind} on {task}", at=60) - value(f"{kind} on {task}", at=1)


def gain_here(kind: str, task: str) -> Quantity:
    """What the range of widths that ran adds to the test accuracy."""
    return at_end(f"{kind} on {task}", end="last") - at_end(f"{kind} on {task}", end="first")


LARGER_WHEN_SHIFTED = each("extra gap by shifts", ">", 0)
LARGER_WHEN_SHIFTED_BINARY = each("extra gap by shifts of zero or not", ">", 0)
GAINS_ON_BINARY = gain_here("linearised", "zero or not") > gain_here("network", "zero or not")
SEARCHED = "searched at full length after a first run whose short search had left the networks untrained"


@study
class GapByTask(Study):
    """Does the gap between a network and its linearisation grow with the difficulty of the task?

    On few images the linear model is also solved exactly: what then is left of the gap is not
    optimisation.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Pairs of three tasks with all classes, and of two with two; some are trained for other studies too."""

        plan: Plan = DESK
        hard: Plan = DESK_HARD
        few: Plan = DESK_FEW  # at width 1
        binary: Plan = DESK_BINARY
        photographs: Plan = DESK_CIFAR
        widths: tuple[float, ...] = (0.25, 1, 4)
        shifted_widths: tuple[float, ...] = (0.25, 1)
        object_widths: tuple[float, ...] = (0.5, 1)
        binary_widths: tuple[float, ...] = BINARY_WIDTHS
        seed: int = 0

    scales = {
        "smoke": Config(
            plan=SMOKE, hard=SMOKE, few=replace(SMOKE, solve=True), binary=SMOKE_BINARY, photographs=SMOKE,
            widths=(0.25, 1), shifted_widths=(0.25, 1), object_widths=(0.5, 1), binary_widths=(0.17, 0.35),
        ),
        "desk": Config(),
        "night": Config(  # two classes, and few images, as at the desk
            plan=NIGHT, hard=NIGHT, photographs=cifar_plan(replace(NIGHT, network_epochs=20)), widths=(1,),
            shifted_widths=(1,), object_widths=(1,),
        ),
        "paper": Config(
            plan=PAPER, hard=PAPER, photographs=cifar_plan(PAPER), binary=PAPER_BINARY,
            widths=PUBLISHED_WIDTHS, shifted_widths=PUBLISHED_WIDTHS,
            object_widths=PUBLISHED_WIDTHS, binary_widths=PUBLISHED_WIDTHS,
        ),
    }  # fmt: skip

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Every pair is kept, so that studies share them."""
        few_photographs = cifar_plan(cfg.few, cfg.photographs.task.data)
        sweeps = {
            "digits": (cfg.plan, cfg.widths, 0),
            "shifted digits": (cfg.hard, cfg.shifted_widths, SHIFT),
            "CIFAR-10": (cfg.photographs, cfg.object_widths, 0),
            "zero or not": (cfg.binary, cfg.binary_widths, 0),
            "shifted zero or not": (cfg.binary, cfg.binary_widths, SHIFT),
            "few digits": (cfg.few, (1,), 0),
            "few shifted digits": (cfg.few, (1,), SHIFT),
            "few of CIFAR-10": (few_photographs, (1,), 0),
        }
        measured: dict[str, Series] = {}
        for name, (plan, widths, shift) in sweeps.items():
            pairs = pairs_by_width(name, plan, widths, seed=cfg.seed, shift=shift)
            measured |= readings(pairs, name)
        for name in TASKS:
            few = name.replace("CIFAR-10", "of CIFAR-10")
            exact = common_widths(
                measured[f"network on few {few}"], measured[f"solved with ridge on few {few}"]
            )
            measured[f"exact gap on few {few}"] = exact
        gaps = {name: measured[f"gap on {name}"] for name in sweeps}
        return {
            **measured,
            "shifted gap minus the published": minus_published(gaps["shifted digits"], SHIFTED),
            "CIFAR-10 gap minus the published": minus_published(gaps["CIFAR-10"], OBJECTS),
            "extra gap by shifts": common_widths(gaps["shifted digits"], gaps["digits"]),
            "extra gap by shifts of zero or not": common_widths(
                gaps["shifted zero or not"], gaps["zero or not"]
            ),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Gap at width 1 by task: trained on many images, on few, and solved exactly on few."""
        few = [name.replace("CIFAR-10", "of CIFAR-10") for name in TASKS]
        rows = {
            "trained by SGD": ([f"gap on {name}" for name in TASKS], "trained"),
            "trained by SGD, few images": ([f"gap on few {name}" for name in few], "random labels"),
            "solved exactly, few images": ([f"exact gap on few {name}" for name in few], "theory"),
        }
        return dots(
            TASKS,
            [
                Dots.of(label, [evidence.values[name][1] for name in names], role=role)
                for label, (names, role) in rows.items()
            ],
            title="Gap between LeNet and its linearisation at width 1",
            alt="Gap in test accuracy by task, for SGD and for the exact solve",
            y="test accuracy, network minus linearisation",
        )

    rules = (
        Rule(
            claim="lin.fig3.shift_gap",
            requires=value("training accuracy of the network on shifted digits", at=1) > 0.9,
            effect=all_of(
                within(value("shifted gap minus the published", at=1), 0, tolerance=0.03),
                value("shifted gap minus the published", at=60) < 0.0209,
                LARGER_WHEN_SHIFTED,
            ),
            reduced=LARGER_WHEN_SHIFTED,
            null=value("exact gap on few shifted digits", at=1) > 0,
            note="the same shifts in every epoch (E-91); published gaps 0.2765 at x1 and 0.0391 at x60, so that the "
            f"last bound says less than six points; {SEARCHED}; the null asks whether a gap is left when the linear "
            "model is solved exactly",
        ),
        Rule(
            claim="lin.fig4.cifar_gap",
            requires=value("training accuracy of the network on CIFAR-10", at=1) > 0.6,
            effect=all_of(
                within(value("CIFAR-10 gap minus the published", at=1), 0, tolerance=0.02),
                within(value("CIFAR-10 gap minus the published", at=60), 0, tolerance=0.02),
                value("gap on CIFAR-10", at=1) > 0.03,
            ),
            reduced=value("gap on CIFAR-10", at=1) > 0.03,
            null=value("exact gap on few of CIFAR-10", at=1) > 0,
            note="published gaps 0.2022 at x1 and 0.1317 at x60; rate divided by ten three times, as published; "
            f"{SEARCHED}, and trained for 24 epochs where the first ledger had 8, after which they knew 37 % of their "
            "own training images; the null asks whether a gap is left when the linear model is solved exactly",
            change=Change("the reduced rule was about x1/2 and asked nothing of the training"),
        ),
        Rule(
            claim="lin.width_effect",
            requires=lowest("training accuracy of the network on zero or not") > 0.95,
            effect=all_of(
                *(gain("linearised", task) > 3 * gain("network", task) for task in TASKS), GAINS_ON_BINARY
            ),
            reduced=GAINS_ON_BINARY,
            null=gain_here("solved with ridge", "zero or not") > 0,
            note="the null asks whether the linear model still gains with width when it is solved exactly, so that "
            "wide ones do not just train faster",
        ),
        Rule(
            claim="lin.difficulty",
            requires=all_of(
                value("training accuracy of the network on digits", at=1) > 0.9,
                value("training accuracy of the network on shifted digits", at=1) > 0.9,
                value("training accuracy of the network on CIFAR-10", at=1) > 0.6,
            ),
            effect=all_of(
                value("gap on digits", at=1) < value("gap on shifted digits", at=1),
                value("gap on digits", at=1) < value("gap on CIFAR-10", at=1),
                LARGER_WHEN_SHIFTED_BINARY,
            ),
            reduced=LARGER_WHEN_SHIFTED_BINARY,
            null=value("exact gap on few shifted digits", at=1) > value("exact gap on few digits", at=1),
            note="the snakes of ImageNet are not obtainable; the order of shifted digits and CIFAR-10 is not judged; "
            f"{SEARCHED}; the null asks for the same order when the linear model is solved exactly",
        ),
    )
