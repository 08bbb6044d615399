"""Constancy of the learning order of two-layer ReLU networks while they overfit."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.executor import map_tasks
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.measures.learning_order.accessibility import AccessibilityRecorder, history_of
from firstlight.models.building import build
from firstlight.training.loop import train
from firstlight.training.observers import geometric_steps
from firstlight.training.recipe import Recipe
from reproduce.catalogue import study
from reproduce.evidence import Measured
from reproduce.studies.learning_order.common import CurveStudy, ensemble_seed, pair
from reproduce.studies.learning_order.order_curves import running_constancy


@study("relu2.sec54.loc_peak")
class ReluOrderPeak(CurveStudy):
    """Is the learning order of two-layer ReLU networks most constant at the onset of overfitting?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Few noisy labels, so that there is something to overfit."""

        data: str = "mnist:4/9"
        n: int = 300
        n_test: int = 1000
        halve: bool = True
        noise: float = 0.2  # share of wrong training labels
        units: int = 200
        nets: int = 2  # per ensemble
        steps: int = 2500
        lr: float = 0.5
        seed: int = 0

    drawn = {"constancy": "trained", "constancy, clean labels": "null", "test accuracy": "random labels"}
    axes = ("step", "correlation up to this step, share")
    at, log_axes = "step", "x"
    scales = {
        "smoke": Config(data="photos:coffee/flower", n=60, n_test=60, units=10, nets=1, steps=20, lr=0.05),
        "desk": Config(steps=5000, lr=0.1),  # a rate of 0.5 left one seed at 51 % of its training labels
        "night": Config(halve=False, nets=5, steps=5000),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Full-batch descent; test answers at times dense at the start of training."""
        clean, test = pair(cfg.data, cfg.n, cfg.n_test, seed=cfg.seed, halve=cfg.halve)
        flips = torch.rand(len(clean), generator=generator_from("flips", cfg.seed)) < cfg.noise
        noisy = clean.replace(y=torch.where(flips, 1 - clean.y, clean.y))
        steps = geometric_steps(cfg.steps, count=40)[1:]
        constancy, accuracy, training = _curves(cfg, noisy, test, steps)
        calm, _, _ = _curves(cfg, clean, test, steps)
        last = max(len(steps) - 1, 1)
        return {
            "peak of constancy": int(constancy.argmax()) / last,
            "peak of test accuracy": int(accuracy.argmax()) / last,
            "highest constancy": float(constancy.max()),
            "fall of constancy": float(constancy.max() - constancy[-1]),
            "fall of constancy with clean labels": float(calm.max() - calm[-1]),
            "fall of test accuracy": float(accuracy.max() - accuracy[-1]),
            "training accuracy": training,
            "step": torch.tensor(steps),
            "constancy": constancy,
            "constancy, clean labels": calm,
            "test accuracy": accuracy,
        }


class _At:
    """Calls a recorder at chosen steps only."""

    def __init__(self, recorder: AccessibilityRecorder, steps: tuple[int, ...]) -> None:
        self.recorder, self.steps = recorder, frozenset(steps)

    def __call__(self, step: int, model: nn.Module) -> None:
        if step in self.steps:
            self.recorder.record(model)


def _curves(
    cfg: ReluOrderPeak.Config, data: ImageData, test: ImageData, steps: tuple[int, ...]
) -> tuple[Tensor, Tensor, float]:
    """Running constancy and test accuracy of two ensembles, and their training accuracy at the end."""

    def member(seed: int) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        model = build("two_layer_relu", classes=1, shape=data.shape, units=cfg.units, seed=seed)
        probes = [AccessibilityRecorder(part.x, part.y) for part in (test, data)]
        targets = 2.0 * data.y.float()[:, None] - 1
        recipe = Recipe(lr=cfg.lr, batch_size=None, steps=cfg.steps, loss="mse", seed=seed)
        observers = [_At(probes[0], steps), _At(probes[1], steps[-1:])]
        train(model, data.x, targets, recipe, observers=observers, show=False)
        return probes[0].state_dict(), probes[1].state_dict()

    seeds = [ensemble_seed(cfg.seed) + i for i in range(2 * cfg.nets)]
    records = map_tasks(member, seeds, label="Training ReLU networks")
    tests = [on_test for on_test, _ in records]
    first, second = history_of(tests[: cfg.nets]), history_of(tests[cfg.nets :])
    accuracy = torch.cat([first.accuracy, second.accuracy]).mean(0)
    training = float(history_of([on_train for _, on_train in records]).accuracy[:, -1].mean())
    return running_constancy(first, second), accuracy, training
