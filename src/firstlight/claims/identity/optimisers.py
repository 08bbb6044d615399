"""Study of the optimiser: same weights at the start, same loss at the end, same answers?"""

import itertools
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import DESK_28, PAPER, SMOKE, grid, varied
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.synthetic import correlated_images
from firstlight.figures import Figure, heatmap
from firstlight.insights import IdentityTask
from firstlight.measures.identity import image_outputs, similarities


@dataclass(frozen=True, kw_only=True)
class OptimiserResult(Result):
    """Pearson between the answers of networks trained by different optimisers from one start."""

    names: tuple[str, ...]
    orthogonal: Float[Tensor, "n n"]
    unseen: Float[Tensor, "n n"]
    losses: Float[Tensor, " n"]
    other_start: float

    @property
    def smallest(self) -> float:
        """The pair that differs most, on images orthogonal to the training image."""
        return float(self.orthogonal.min())


def _pairs(outputs: list[Tensor]) -> Tensor:
    table = torch.eye(len(outputs), dtype=torch.float64)
    for i, j in itertools.combinations(range(len(outputs)), 2):
        table[i, j] = table[j, i] = similarities(outputs[i], outputs[j]).mean()
    return table


@study("id.fig32.optimisers")
class Optimisers:
    """Do optimisers that reach the same loss from the same start give the same answers?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_28
        depth: int = 5
        optimisers: tuple[tuple[str, float, float], ...] = (  # name, rate, momentum
            ("sgd", 0.01, 0.9),
            ("adam", 1e-3, 0.0),
            ("rmsprop", 1e-3, 0.0),
            ("adamax", 2e-3, 0.0),
        )
        steps: int = 2000
        stop_below: float | None = 9e-4
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, steps=4),
        "desk": Config(),
        "paper": Config(
            base=PAPER,
            optimisers=(
                ("sgd", 0.01, 0.9),
                ("sgd", 0.001, 0.9),
                ("sgd", 0.0001, 0.9),
                ("adagrad", 1e-3, 0.0),
                ("rmsprop", 1e-4, 0.0),
                ("adam", 1e-4, 0.0),
                ("adamax", 1e-3, 0.0),
            ),
            steps=2_000_000,
            stop_below=None,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> OptimiserResult:
        """Train with each, and once more with another start."""

        def task(optimiser: tuple[str, float, float], seed: int) -> IdentityTask:
            name, lr, momentum = optimiser
            settings = {"steps": cfg.steps, "stop_below": cfg.stop_below, "depth": cfg.depth}
            return varied(cfg.base, seed, optimiser=name, lr=lr, momentum=momentum, **settings)

        tasks = [*(task(o, cfg.seed) for o in cfg.optimisers), task(cfg.optimisers[1], cfg.seed + 1)]
        (runs,) = grid([tasks], label="optimisers")
        images = tasks[0].images
        zero = torch.zeros(1, dtype=torch.float64)
        noise = correlated_images(images.training[0], zero, draws=20, seed=cfg.seed)[0].float()
        answers = [image_outputs(run.model, noise) for run in runs]
        return OptimiserResult(
            names=tuple(f"{name} {lr:g}" for name, lr, _ in cfg.optimisers),
            orthogonal=_pairs(answers[:-1]),
            unseen=_pairs([image_outputs(run.model, images.unseen) for run in runs[:-1]]),
            losses=torch.tensor([run.found.loss for run in runs[:-1]], dtype=torch.float64),
            other_start=float(similarities(answers[1], answers[-1]).mean()),
        )

    @staticmethod
    def figure(result: OptimiserResult) -> Figure:
        """The table of pairs."""
        return heatmap(
            result.orthogonal,
            rows=result.names,
            columns=result.names,
            title="Agreement of the answers to images orthogonal to the training image",
            alt="Pearson correlation of every pair of optimisers",
        )

    rules = {
        "id.fig32.optimisers": Rule(
            measured=lambda r: {
                "smallest pair, rho = 0": r.smallest,
                "smallest pair, unseen images": float(r.unseen.min()),
                "largest loss": float(r.losses.max()),
            },
            null=lambda r: {"one optimiser, two starts, rho = 0": r.other_start},
            reproduced=lambda r: r.smallest < 0.9 and float(r.losses.max()) < 1e-3,
            partly=lambda r: r.smallest < 0.95,
        )
    }
