"""Labels that are separable in few or many leading components."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import centred, histories, images, one_hot
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation, SeparatorLabels
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import image_pca, pearson
from firstlight.models import ModelSpec
from firstlight.theory.deep_linear import columns_at, principal_moments
from firstlight.training import Recipe

STARTS = ("true", "shuffled")


@dataclass(frozen=True, kw_only=True)
class Relabelled(Result):
    """Learning curves by start of the labels and number of components."""

    numbers: tuple[int, ...]
    cnn: Float[Tensor, "2 p nets epochs"]  # training accuracy
    linear: Float[Tensor, "2 p"]  # training accuracy of a linear network after 50 steps
    agreement: Float[Tensor, "2 p"]  # of the new labels with the old ones
    uncorrelated: Float[Tensor, " draws"]  # correlation of new and true labels, started from shuffled ones

    def area(self, start: int) -> Float[Tensor, " p"]:
        """Area under the training curve, by number of components."""
        return self.cnn[start].mean((1, 2))

    def area_spread(self, start: int) -> Float[Tensor, " p"]:
        """Its standard deviation over networks."""
        each = self.cnn[start].mean(2)
        return each.std(1) if each.shape[1] > 1 else torch.zeros(len(each), dtype=each.dtype)


def _named(numbers: tuple[int, ...], values: Tensor, prefix: str = "area") -> dict[str, float]:
    return {f"{prefix}, P={p}": float(v) for p, v in zip(numbers, values, strict=True)}


@study("interv.fig11a", "interv.fig11b", "interv.relabel_uncorrelated")
class SeparableLabels:
    """Are labels that are separable in fewer leading components learned faster?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks."""

        data: str = "cats_dogs"
        n: int = 1500  # more than the 768 pixels
        numbers: tuple[int, ...] = (10, 50, 500)
        model: str = "small"
        options: tuple[tuple[str, float], ...] = (("width", 0.5),)
        nets: int = 2
        epochs: int = 12
        lr: float = 0.05
        draws: int = 5  # shuffles for the correlation with the true labels
        uncorrelated_components: int = 20
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            data="photos:coffee/flower",
            n=200,
            numbers=(5, 50),
            options=(("width", 0.1),),
            nets=1,
            epochs=2,
            draws=2,
            uncorrelated_components=5,
        ),
        "desk": Config(),
        "paper": Config(n=10_000, model="st_vgg", options=(), nets=10, epochs=100),
    }

    @staticmethod
    def run(cfg: Config) -> Relabelled:
        """Relabel, then train."""
        raw = images(cfg.data, "train", cfg.n, seed=cfg.seed)
        train = ChannelNormalisation.fit(raw).transform(raw)
        pca = image_pca(train.x)
        cnn, linear, agreement = [], [], []
        for start in STARTS:
            for p in cfg.numbers:
                labels = SeparatorLabels.fit(train, p, start=start, seed=cfg.seed, pca=pca)  # type: ignore[arg-type]
                new = labels.transform(train)
                cnn.append(_cnn_curve(cfg, new))
                linear.append(_linear_accuracy(new, steps=50))
                agreement.append(labels.agreement)
        uncorrelated = [
            float(
                pearson(
                    SeparatorLabels.fit(
                        train, cfg.uncorrelated_components, start="shuffled", seed=cfg.seed + d, pca=pca
                    )
                    .transform(train)
                    .y.double(),
                    train.y.double(),
                )
            )
            for d in range(cfg.draws)
        ]
        shape = (2, len(cfg.numbers))
        return Relabelled(
            numbers=cfg.numbers,
            cnn=torch.stack(cnn).reshape(*shape, cfg.nets, cfg.epochs),
            linear=torch.tensor(linear, dtype=torch.float64).reshape(shape),
            agreement=torch.tensor(agreement, dtype=torch.float64).reshape(shape),
            uncorrelated=torch.tensor(uncorrelated, dtype=torch.float64),
        )

    @staticmethod
    def figure(result: Relabelled) -> Figure:
        """Training accuracy by number of components."""
        roles = ("trained", "theory", "random labels")
        return curves(
            [
                Curve(name=f"P = {p}", values=result.cnn[0, i], role=roles[i % 3])
                for i, p in enumerate(result.numbers)
            ],
            title="Labels separable in P components",
            alt="Training accuracy over epochs, one curve per number of components",
            x="epoch",
            y="training accuracy",
        )

    rules: ClassVar = {
        "interv.fig11a": Rule(
            measured=lambda r: {
                **_named(r.numbers, r.area(0)),
                **_named(r.numbers, r.linear[0], "linear after 50 steps"),
            },
            reproduced=lambda r: bool((r.area(0).diff() < 0).all()),
            partly=lambda r: bool(r.linear[0, -2] > r.linear[0, -1]),
            spread=lambda r: _named(r.numbers, r.area_spread(0)),
            null=lambda r: _named(r.numbers, r.agreement[0], "labels kept"),
        ),
        "interv.fig11b": Rule(
            measured=lambda r: {
                **_named(r.numbers, r.area(1)),
                **_named(r.numbers, r.linear[1], "linear after 50 steps"),
            },
            reproduced=lambda r: bool((r.area(1).diff() < 0).all()),
            partly=lambda r: bool((r.linear[1].diff() < 0).all()),
            spread=lambda r: _named(r.numbers, r.area_spread(1)),
            null=lambda r: _named(r.numbers, r.agreement[1], "labels kept"),
        ),
        "interv.relabel_uncorrelated": Rule(
            measured=lambda r: {
                "|r|, worst": float(r.uncorrelated.abs().max()),
                "r": float(r.uncorrelated.mean()),
            },
            reproduced=lambda r: bool((r.uncorrelated.abs() < 0.15).all()),
            partly=lambda r: bool((r.uncorrelated.abs() < 0.15).all()),
            spread=lambda r: {"r": float(r.uncorrelated.std())},
        ),
    }


def _cnn_curve(cfg: "SeparableLabels.Config", train: ImageData) -> Tensor:
    spec = ModelSpec(name=cfg.model, classes=2, shape=train.shape, options=dict(cfg.options))
    recipe = Recipe(lr=cfg.lr, batch_size=32, epochs=cfg.epochs, seed=cfg.seed)
    _, (history,) = histories(spec, cfg.nets, train, recipe, train, label="Training on new labels")
    return history.accuracy


def _linear_accuracy(train: ImageData, *, steps: int) -> float:
    (x,) = centred(train)
    moments = principal_moments(x, one_hot(train))
    weights = columns_at(
        torch.zeros_like(moments.cross), moments, rate=1 / float(moments.values[0]), steps=steps
    )
    shares = train.counts.double() / len(train)
    return float(((x @ moments.basis @ weights.T + shares).argmax(1) == train.y).double().mean())
