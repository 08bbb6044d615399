"""A wide linear model against a narrow network, and the kernels that wide networks tend to."""

from dataclasses import dataclass, replace

import torch

from firstlight.estimators.cntk import CNTKClassifier
from firstlight.estimators.convrfm import ConvRFMClassifier
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.linearized.common import (
    DESK,
    DESK_CIFAR,
    DESK_FEW,
    SMOKE,
    accuracy_curves,
    pairs_by_width,
    readings,
)
from reproduce.studies.linearized.pairs import Plan
from reproduce.studies.linearized.tasks import Task, parts_of


def kernel_lines(task: Task, *, seed: int, depth: int, size: int) -> tuple[float, float]:
    """Test accuracy of the fixed and of the learned kernel on the images of the pairs."""
    train, valid, test = parts_of(task, seed=seed)
    fixed = CNTKClassifier(depth=depth, size=size).fit(train.x, train.y.numpy())
    learned = ConvRFMClassifier(depth=depth, size=size, rounds=2)
    learned.fit(torch.cat([train.x, valid.x]), torch.cat([train.y, valid.y]).numpy())
    scores = [test.y.numpy() == machine.predict(test.x) for machine in (fixed, learned)]
    return float(scores[0].mean()), float(scores[1].mean())


@study("lin.fig4.crossover")
class Crossover(Study):
    """Does a wide linearised network beat a narrow network, and where do both end as width grows?

    The figure goes beyond the paper: widths until the gap closes, beside the convolutional tangent
    kernel (the limit of infinite width) and the ConvRFM (a kernel that learns features).
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Pairs on CIFAR-10 and on digits, trained for other studies too, and on few digits beside kernels."""

        plan: Plan = DESK
        photographs: Plan = DESK_CIFAR
        few: Plan = DESK_FEW
        object_widths: tuple[float, ...] = (0.5, 1)
        digit_widths: tuple[float, ...] = (0.25, 4)
        few_widths: tuple[float, ...] = (0.5, 1, 2)
        depth: int = 3  # of the kernels
        size: int = 3
        seed: int = 0

    scales = {
        "smoke": Config(
            plan=SMOKE, photographs=SMOKE, few=replace(SMOKE, solve=True), object_widths=(0.5, 1),
            few_widths=(0.25, 1), digit_widths=(0.25, 1), depth=2,
        ),
        "desk": Config(),
    }  # fmt: skip

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Pairs on three sets of images, then the kernels."""
        objects = cfg.photographs
        few = pairs_by_width("few digits", cfg.few, cfg.few_widths, seed=cfg.seed)
        cntk, convrfm = kernel_lines(cfg.few.task, seed=cfg.seed, depth=cfg.depth, size=cfg.size)
        return {
            **readings(pairs_by_width("CIFAR-10", objects, cfg.object_widths, seed=cfg.seed), "CIFAR-10"),
            **readings(pairs_by_width("digits", cfg.plan, cfg.digit_widths, seed=cfg.seed), "digits"),
            **readings(few, "few digits"),
            "CNTK": cntk,
            "ConvRFM": convrfm,
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Accuracy on few digits against width, with the kernels as lines."""
        return accuracy_curves(
            evidence,
            "few digits",
            title="Width until the gap closes, and the kernels beyond",
            lines={"CNTK": "null", "ConvRFM": "initial"},
        )
