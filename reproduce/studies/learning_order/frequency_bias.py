"""The frequency data set: low frequencies first."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.maths.correlation import pearson, spearman
from firstlight.measures.learning_order.discriminability import discriminabilities
from firstlight.models.building import ModelSpec
from firstlight.training.recipe import Recipe
from reproduce.catalogue import study
from reproduce.evidence import Measured, by
from reproduce.studies.learning_order.common import CurveStudy, ensemble_seed, histories, training_accuracy
from reproduce.studies.learning_order.frequency_task import critical_frequency, frequency_data

KS = (10, 30)
BY_FREQUENCY, DEALT = "accessibility against frequency", "with frequencies dealt at random"


@study("spectral.fig8a", "spectral.fig8b", "spectral.fig13", "spectral.sec54.no_decline")
class FrequencyBias(CurveStudy):
    """Are points that need higher frequencies learned later?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Points and networks."""

        n: int = 3000
        n_test: int = 1000
        units: int = 128
        nets: int = 2
        epochs: int = 60
        lr: float = 3e-3
        seed: int = 0

    n_seeds = 10  # cheap, and the correlation lies close to its bound
    drawn = "frequency "
    axes = ("epoch", "accuracy on points of each critical frequency")
    scales = {
        "smoke": Config(n=300, n_test=200, units=16, epochs=3),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train small networks of two hidden layers on the points, curve labels."""
        train = frequency_data(cfg.n, seed=cfg.seed)
        test = frequency_data(cfg.n_test, seed=cfg.seed, split="test")
        spec = ModelSpec(name="fcn", classes=2, shape=(2, 1, 1), options={"depth": 3, "units": cfg.units})
        recipe = Recipe(
            optimiser="adam", lr=cfg.lr, batch_size=64, epochs=cfg.epochs, seed=ensemble_seed(cfg.seed)
        )
        nets, (history,) = histories(spec, cfg.nets, train, recipe, test, label="Training on frequencies")
        right = history.correct.double().mean(0)
        points = test.x.flatten(1)
        critical = critical_frequency(points)
        dealt = critical[torch.randperm(len(critical), generator=generator_from("dealt", cfg.seed))]
        present, rows, times = _by_frequency(right, critical)
        present_dealt, rows_dealt, times_dealt = _by_frequency(right, dealt)
        near = discriminabilities(points, test.y, ks=KS)
        epochs = torch.arange(1, right.shape[0] + 1).double()
        frequencies = torch.tensor(present).double()
        so_far = [float(pearson(frequencies, row)) for row in (rows.cumsum(1) / epochs).T]
        return {
            BY_FREQUENCY: so_far[-1],
            f"strongest {BY_FREQUENCY}": min(so_far),
            f"{BY_FREQUENCY} {DEALT}": float(
                pearson(torch.tensor(present_dealt).double(), rows_dealt.mean(1))
            ),
            "neighbours against frequency": by(KS, [float(pearson(row, critical)) for row in near]),
            f"neighbours against frequency {DEALT}": float(pearson(near[0], dealt)),
            "epochs to 50 %": by(present, times),
            "order of the epochs to 50 %": _order(frequencies, times),
            f"order of the epochs to 50 % {DEALT}": _order(torch.tensor(present_dealt).double(), times_dealt),
            "training accuracy": training_accuracy(nets),
            **{f"frequency {j}": row for j, row in zip(present, rows, strict=True)},
        }


def _by_frequency(right: Tensor, critical: Tensor) -> tuple[list[int], Tensor, Tensor]:
    """Frequencies that occur, accuracy over epochs on the points of each, and the first epoch at 50 %."""
    present = [j for j in range(10) if int((critical == j).sum()) >= 5]
    rows = torch.stack([right[:, critical == j].mean(1) for j in present])
    above = rows >= 0.5
    never = right.shape[0] + 1.0
    return present, rows, torch.where(above.any(1), above.to(torch.uint8).argmax(1) + 1.0, never).double()


def _order(frequencies: Tensor, times: Tensor) -> float:
    """Spearman correlation; 0 if all times agree."""
    return 0.0 if bool((times == times[0]).all()) else float(spearman(frequencies, times))
