"""Constancy of the learning order of two-layer ReLU networks while they overfit."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.learning_order._shared import pair
from firstlight.claims.study import Rule, study
from firstlight.core.parallel import map_tasks
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.figures import Curve, Figure, curves
from firstlight.measures.learning_order import AccessibilityRecorder, history_of, running_constancy
from firstlight.models import build
from firstlight.training import Recipe, geometric_steps, train


@dataclass(frozen=True, kw_only=True)
class OrderPeak(Result):
    """Running constancy and accuracy."""

    steps: tuple[int, ...]
    constancy: Float[Tensor, " t"]
    accuracy: Float[Tensor, " t"]  # on test images, mean over networks

    def position(self, curve: Float[Tensor, " t"]) -> float:
        """Where a curve peaks, as a share of the recorded times."""
        return int(curve.argmax()) / max(len(curve) - 1, 1)

    @property
    def fall(self) -> float:
        """How far the constancy ends below its peak."""
        return float(self.constancy.max() - self.constancy[-1])


@study("relu2.sec54.loc_peak")
class ReluOrderPeak:
    """Is the learning order of two-layer ReLU networks most constant at the onset of overfitting?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Few noisy labels, so that there is something to overfit."""

        data: str = "mnist:4/9"
        n: int = 300
        n_test: int = 1000
        noise: float = 0.2  # share of wrong training labels
        units: int = 200
        nets: int = 5  # per ensemble
        steps: int = 1500
        lr: float = 0.5
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(data="photos:coffee/flower", n=60, n_test=60, units=10, nets=1, steps=20, lr=0.05),
        "desk": Config(),
        "paper": Config(data="cats_dogs", n=10_000, n_test=2000, units=1024, nets=10, steps=100_000),
    }

    @staticmethod
    def run(cfg: Config) -> OrderPeak:
        """Full-batch descent; test answers at times dense at the start."""
        clean, test = pair(cfg.data, cfg.n, cfg.n_test, seed=cfg.seed)
        flips = torch.rand(len(clean), generator=generator_from("flips", cfg.seed)) < cfg.noise
        noisy = clean.replace(y=torch.where(flips, 1 - clean.y, clean.y))
        steps = geometric_steps(cfg.steps, count=40)[1:]

        def member(seed: int) -> dict[str, Tensor]:
            return _record(cfg, noisy, test, steps, seed)

        records = map_tasks(
            member, [cfg.seed + i for i in range(2 * cfg.nets)], label="Training ReLU networks"
        )
        first, second = history_of(records[: cfg.nets]), history_of(records[cfg.nets :])
        return OrderPeak(
            steps=steps,
            constancy=running_constancy(first, second),
            accuracy=torch.cat([first.accuracy, second.accuracy]).mean(0),
        )

    @staticmethod
    def figure(result: OrderPeak) -> Figure:
        """Both curves."""
        return curves(
            [
                Curve(name="constancy so far", values=result.constancy[None]),
                Curve(name="test accuracy", values=result.accuracy[None], role="random labels"),
            ],
            title="Constancy of the order while overfitting",
            alt="Running constancy and test accuracy against steps",
            x="step",
            y="correlation, share",
            at=result.steps,
            log_x=True,
        )

    rules: ClassVar = {
        "relu2.sec54.loc_peak": Rule(
            measured=lambda r: {
                "constancy peaks at": r.position(r.constancy),
                "accuracy peaks at": r.position(r.accuracy),
                "fall of constancy": r.fall,
                "peak constancy": float(r.constancy.max()),
            },
            reproduced=lambda r: abs(r.position(r.constancy) - r.position(r.accuracy)) <= 0.25 and r.fall > 0,
            partly=lambda r: r.fall > 0,
            null=lambda r: {
                "fall of accuracy": float(r.accuracy.max() - r.accuracy[-1]),
                "constancy at the first record": float(r.constancy[0]),
            },
            note="positions are shares of the recorded times, which are dense at the start",
        )
    }


class _At:
    """Calls a recorder at chosen steps only."""

    def __init__(self, recorder: AccessibilityRecorder, steps: tuple[int, ...]) -> None:
        self.recorder, self.steps = recorder, frozenset(steps)

    def __call__(self, step: int, model: nn.Module) -> None:
        if step in self.steps:
            self.recorder.record(model)


def _record(
    cfg: "ReluOrderPeak.Config", noisy: ImageData, test: ImageData, steps: tuple[int, ...], seed: int
) -> dict[str, Tensor]:
    model = build("two_layer_relu", classes=1, shape=noisy.shape, units=cfg.units, seed=seed)
    recorder = AccessibilityRecorder(test.x, test.y)
    targets = 2.0 * noisy.y.float()[:, None] - 1
    recipe = Recipe(lr=cfg.lr, batch_size=None, steps=cfg.steps, loss="mse", seed=seed)
    train(model, noisy.x, targets, recipe, observers=[_At(recorder, steps)], show=False)
    return recorder.state_dict()
