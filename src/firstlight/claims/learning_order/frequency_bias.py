"""The frequency data set: low frequencies first."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import histories, is_non_decreasing
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.synthetic.frequency import frequency_data
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import pearson, spearman
from firstlight.measures.learning_order import (
    OrderCorrelation,
    critical_frequency,
    discriminabilities,
    order_correlation,
)
from firstlight.models import ModelSpec
from firstlight.training import Recipe

KS = (10, 30)


@dataclass(frozen=True, kw_only=True)
class FrequencyBias(Result):
    """Accessibility, neighbours and learning curves by critical frequency."""

    frequencies: Float[Tensor, " f"]  # those that occur
    accessibility: Float[Tensor, " f"]  # mean of the points of each
    curves: Float[Tensor, "f epochs"]  # accuracy on the points of each, mean over networks
    times: Float[Tensor, " f"]  # first epoch at 50 %; one more than there are if never
    pointwise: OrderCorrelation
    neighbours: Float[Tensor, " ks"]  # correlation of discriminability and critical frequency
    neighbours_chance: float  # sd of the same when dealt out at random

    @property
    def by_frequency(self) -> float:
        """Correlation of frequency and mean accessibility."""
        return float(pearson(self.frequencies, self.accessibility))

    @property
    def time_order(self) -> float:
        """Spearman correlation of frequency and time; 0 if all times agree."""
        if bool((self.times == self.times[0]).all()):
            return 0.0
        return float(spearman(self.frequencies, self.times))


@study("spectral.fig8a", "spectral.fig8b", "spectral.fig13")
class FrequencyOrder:
    """Are points that need higher frequencies learned later?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Points and networks."""

        n: int = 3000
        n_test: int = 1000
        units: int = 128
        nets: int = 3
        epochs: int = 60
        lr: float = 3e-3
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(n=300, n_test=200, units=16, nets=2, epochs=3),
        "desk": Config(),
        "paper": Config(n=10_000, units=512, nets=100, epochs=10_000),
    }

    @staticmethod
    def run(cfg: Config) -> FrequencyBias:
        """Train small networks of two hidden layers on the points, curve labels."""
        train = frequency_data(cfg.n, seed=cfg.seed)
        test = frequency_data(cfg.n_test, seed=cfg.seed, split="test")
        spec = ModelSpec(name="fcn", classes=2, shape=(2, 1, 1), options={"depth": 3, "units": cfg.units})
        recipe = Recipe(optimiser="adam", lr=cfg.lr, batch_size=64, epochs=cfg.epochs, seed=cfg.seed)
        _, (history,) = histories(spec, cfg.nets, train, recipe, test, label="Training on frequencies")
        points = test.x.flatten(1)
        critical = critical_frequency(points)
        present = [j for j in range(10) if int((critical == j).sum()) >= 5]
        right = history.correct.double().mean(0)
        rows = torch.stack([right[:, critical == j].mean(1) for j in present])
        above = rows >= 0.5
        times = torch.where(above.any(1), above.to(torch.uint8).argmax(1) + 1.0, history.n_epochs + 1.0)
        near = discriminabilities(points, test.y, ks=KS)
        found = [order_correlation(row, critical, seed=cfg.seed) for row in near]
        return FrequencyBias(
            frequencies=torch.tensor(present).double(),
            accessibility=torch.stack([history.scores[critical == j].mean() for j in present]),
            curves=rows,
            times=times.double(),
            pointwise=order_correlation(history.scores, critical, seed=cfg.seed),
            neighbours=torch.tensor([f.pointwise.value for f in found], dtype=torch.float64),
            neighbours_chance=found[0].chance.spread,
        )

    @staticmethod
    def figure(result: FrequencyBias) -> Figure:
        """Accuracy by critical frequency over epochs."""
        roles = ("trained", "random labels", "theory", "other", "null", "initial")
        return curves(
            [
                Curve(name=f"frequency {int(j)}", values=row[None], role=roles[i % 6])
                for i, (j, row) in enumerate(zip(result.frequencies, result.curves, strict=True))
            ],
            title="Low frequencies are learned first",
            alt="Accuracy over epochs on points of each critical frequency",
            x="epoch",
            y="accuracy",
        )

    rules: ClassVar = {
        "spectral.fig8a": Rule(
            measured=lambda r: {"by frequency": r.by_frequency, "pointwise": r.pointwise.pointwise.value},
            reproduced=lambda r: r.by_frequency <= -0.8,
            partly=lambda r: r.by_frequency <= -0.7,
            spread=lambda r: {"pointwise": (r.pointwise.pointwise.high - r.pointwise.pointwise.low) / 3.92},
            null=lambda r: {"chance, sd": r.pointwise.chance.spread},
        ),
        "spectral.fig8b": Rule(
            measured=lambda r: {f"k={k}": float(v) for k, v in zip(KS, r.neighbours, strict=True)},
            reproduced=lambda r: float(r.neighbours[0]) <= -0.6,
            partly=lambda r: float(r.neighbours[0]) <= -0.5,
            null=lambda r: {"chance, sd": r.neighbours_chance},
        ),
        "spectral.fig13": Rule(
            measured=lambda r: {
                "Spearman": r.time_order,
                "first": float(r.times[0]),
                "last": float(r.times[-1]),
            },
            reproduced=lambda r: (
                is_non_decreasing(r.times.tolist()) and float(r.times[-1]) > float(r.times[0])
            ),
            partly=lambda r: r.time_order > 0.6,
            null=lambda r: {"epochs": float(r.curves.shape[1])},
        ),
    }
