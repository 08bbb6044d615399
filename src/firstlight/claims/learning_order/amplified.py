"""Early stopping after the top or the bottom components were amplified."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import centred, histories, one_hot, pair
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import Amplification
from firstlight.figures import Curve, Figure, curves
from firstlight.models import ModelSpec
from firstlight.theory.deep_linear import columns_at, principal_moments
from firstlight.training import Recipe, geometric_steps

CONDITIONS = ("top", "none", "bottom")


@dataclass(frozen=True, kw_only=True)
class Amplified(Result):
    """Test accuracy over time in three conditions: top amplified, none, bottom."""

    steps: tuple[int, ...]
    linear: Float[Tensor, "seeds 3 t"]
    cnn: Float[Tensor, "nets 3 epochs"]

    def gaps(self, *, cnn: bool = False) -> Float[Tensor, " 3"]:
        """Best less final accuracy of the mean curve, by condition."""
        mean = (self.cnn if cnn else self.linear).mean(0)
        return mean.max(1).values - mean[:, -1]

    def gap_spread(self, *, cnn: bool = False) -> Float[Tensor, " 3"]:
        """Standard deviation of the gap over runs."""
        rows = self.cnn if cnn else self.linear
        each = rows.max(2).values - rows[:, :, -1]
        return each.std(0) if len(each) > 1 else torch.zeros(3, dtype=each.dtype)


def _named(values: Float[Tensor, " 3"]) -> dict[str, float]:
    return dict(zip(CONDITIONS, values.tolist(), strict=True))


@study("interv.fig9a", "interv.fig9b")
class AmplifiedComponents:
    """Does early stopping gain more when the lowest components are amplified than when the highest are?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks."""

        data: str = "cats_dogs"
        n: int = 300
        n_test: int = 2000
        steps: int = 6000  # of the linear network
        samples: int = 5  # draws of the training images
        model: str = "small"
        options: tuple[tuple[str, float], ...] = (("width", 0.5),)
        nets: int = 3
        epochs: int = 50
        lr: float = 0.05
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            data="photos:coffee/flower",
            n=60,
            n_test=60,
            steps=50,
            samples=2,
            options=(("width", 0.1),),
            nets=1,
            epochs=2,
        ),
        "desk": Config(),
        "paper": Config(
            data="small_mammals",
            n=2500,
            n_test=500,
            steps=100_000,
            model="st_vgg",
            options=(),
            nets=10,
            epochs=200,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> Amplified:
        """Closed form for the linear network, training for the CNN."""
        steps = geometric_steps(cfg.steps, count=60)[1:]
        linear = torch.stack([_linear(cfg, steps, cfg.seed + s) for s in range(cfg.samples)])
        return Amplified(steps=steps, linear=linear, cnn=_cnn(cfg))

    @staticmethod
    def figure(result: Amplified) -> Figure:
        """Test accuracy of the linear network."""
        roles = ("theory", "trained", "random labels")
        return curves(
            [
                Curve(name=name, values=result.linear[:, i], role=roles[i])
                for i, name in enumerate(("top amplified", "as they are", "bottom amplified"))
            ],
            title="Early stopping and which components are large",
            alt="Test accuracy of a linear network over steps in three conditions",
            x="step",
            y="test accuracy",
            at=result.steps,
            log_x=True,
        )

    rules: ClassVar = {
        "interv.fig9a": Rule(
            measured=lambda r: _named(r.gaps()),
            reproduced=lambda r: bool(r.gaps()[2] > r.gaps()[1] > r.gaps()[0]),
            partly=lambda r: bool(r.gaps()[2] > r.gaps()[0] + 0.02),
            spread=lambda r: _named(r.gap_spread()),
            null=lambda r: {"nothing amplified": float(r.gaps()[1])},
        ),
        "interv.fig9b": Rule(
            measured=lambda r: _named(r.gaps(cnn=True)),
            reproduced=lambda r: bool(r.gaps(cnn=True)[2] > r.gaps(cnn=True)[0]),
            partly=lambda r: bool(r.gaps(cnn=True)[2] >= r.gaps(cnn=True)[0]),
            spread=lambda r: _named(r.gap_spread(cnn=True)),
            null=lambda r: {"nothing amplified": float(r.gaps(cnn=True)[1])},
        ),
    }


def _conditions(train: ImageData, test: ImageData) -> list[tuple[ImageData, ImageData]]:
    found = []
    for end in CONDITIONS:
        change = None if end == "none" else Amplification.fit(train, end="top" if end == "top" else "bottom")
        found.append((train, test) if change is None else (change.transform(train), change.transform(test)))
    return found


def _linear(cfg: "AmplifiedComponents.Config", steps: tuple[int, ...], seed: int) -> Tensor:
    rows = []
    for train, test in _conditions(*pair(cfg.data, cfg.n, cfg.n_test, seed=seed)):
        x, z = centred(train, test)
        moments = principal_moments(x, one_hot(train))
        shares = train.counts.double() / len(train)
        start = torch.zeros_like(moments.cross)
        seen = z @ moments.basis
        rate = 1 / float(moments.values[0])
        accuracy = [
            float(
                ((seen @ columns_at(start, moments, rate=rate, steps=s).T + shares).argmax(1) == test.y)
                .double()
                .mean()
            )
            for s in steps
        ]
        rows.append(torch.tensor(accuracy, dtype=torch.float64))
    return torch.stack(rows)


def _cnn(cfg: "AmplifiedComponents.Config") -> Tensor:
    rows = []
    for train, test in _conditions(*pair(cfg.data, cfg.n, cfg.n_test, seed=cfg.seed)):
        probe = test.sample(min(1000, len(test)), seed=cfg.seed)
        spec = ModelSpec(
            name=cfg.model, classes=train.n_classes, shape=train.shape, options=dict(cfg.options)
        )
        recipe = Recipe(lr=cfg.lr, batch_size=32, epochs=cfg.epochs, seed=cfg.seed)
        _, (history,) = histories(spec, cfg.nets, train, recipe, probe, label="Training on amplified images")
        rows.append(history.accuracy)
    return torch.stack(rows, dim=1)
