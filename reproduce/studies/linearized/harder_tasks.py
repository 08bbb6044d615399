"""Where the gap is larger: shifted digits, photographs; and what width does to either model."""

from dataclasses import dataclass, replace

from firstlight.pages.figures.dots import Dots, dots
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, Series
from reproduce.studies.linearized.common import (
    BINARY_WIDTHS,
    DESK,
    DESK_BINARY,
    DESK_CIFAR,
    DESK_FEW,
    DESK_HARD,
    NIGHT,
    SHIFT,
    SMOKE,
    SMOKE_BINARY,
    cifar_plan,
    common_widths,
    minus_published,
    pairs_by_width,
    readings,
)
from reproduce.studies.linearized.pairs import Plan

TASKS = ("digits", "shifted digits", "CIFAR-10")
SHIFTED = {1: 0.2765, 60: 0.0391}  # published gaps
OBJECTS = {1: 0.2022, 60: 0.1317}


@study("lin.fig3.shift_gap", "lin.fig4.cifar_gap", "lin.width_effect", "lin.difficulty")
class HarderTasks(Study):
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
