"""The order in which a small CNN learns, beside linear networks and scores that need no training."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import histories, is_non_decreasing, pair, trained_models
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import ComponentProjection, ZCAWhitening
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import image_pca
from firstlight.measures.learning_order import (
    AccessibilityHistory,
    Constancy,
    OrderCorrelation,
    critical_component,
    discriminabilities,
    discriminability,
    learning_order_constancy,
    order_correlation,
    penultimate_features,
    smoothed_correlation,
)
from firstlight.models import ModelSpec
from firstlight.training import Recipe

KS = (1, 10, 50)


@dataclass(frozen=True, kw_only=True)
class CnnOrder(Result):
    """Accessibility of test images against everything that may predict it."""

    published_data: bool  # whether these are the paper's images
    numbers: tuple[int, ...]  # P of the projections
    projected: Float[Tensor, "p epochs"]  # test accuracy on projected images, mean over networks
    projected_many: Float[Tensor, "p epochs"]  # the same on the ten-class data
    accuracy: Float[Tensor, " epochs"]
    with_linear: OrderCorrelation
    constancy: Constancy  # of the CNN with itself: the ceiling of any correlation
    with_critical: OrderCorrelation
    smoothed: float
    smoothed_whitened: float  # networks on whitened images against the same critical components
    raw: OrderCorrelation  # discriminability in pixels
    raw_by_k: Float[Tensor, " ks"]
    penultimate: OrderCorrelation
    untrained: float  # discriminability in the last layer of an untrained network

    def peaks(self, *, many: bool = False) -> list[int]:
        """Epoch of the best accuracy, by number of components, from 1."""
        rows = self.projected_many if many else self.projected
        return [int(row.argmax()) + 1 for row in rows]

    def fall(self, *, many: bool = False) -> float:
        """How far the accuracy on the fewest components ends below its peak."""
        row = (self.projected_many if many else self.projected)[0]
        return float(row.max() - row[-1])


@study(
    "pcbias.fig5a",
    "pcbias.fig5b",
    "loc.fig6a",
    "loc.fig6b",
    "spectral.table1.raw",
    "spectral.table1.penultimate",
)
class CnnLearningOrder:
    """What predicts the order in which a CNN learns: linear networks, components, neighbours?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks; 16 x 16 images at desk scale."""

        data: str = "cats_dogs"
        many: str = "cifar10"  # ten classes, for the second projection study
        n: int = 2000
        n_test: int = 1000
        model: str = "small"
        options: tuple[tuple[str, float], ...] = (("width", 0.5),)
        lr: float = 0.02
        epochs: int = 20
        nets: int = 4  # CNNs; the first half against the second gives their constancy
        linear_nets: int = 4
        linear_lr: float = 0.003
        linear_epochs: int = 10
        numbers: tuple[int, ...] = (2, 5, 20, 100)
        halve: bool = True
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            data="photos:coffee/flower",
            many="photos",
            n=200,
            n_test=100,
            options=(("width", 0.1),),
            epochs=2,
            nets=2,
            linear_nets=2,
            linear_epochs=2,
            numbers=(2, 5),
        ),
        "desk": Config(),
        "paper": Config(
            data="small_mammals",
            n=2500,
            n_test=500,
            model="st_vgg",
            options=(),
            lr=0.05,
            epochs=200,
            nets=100,
            linear_nets=100,
            linear_epochs=200,
            numbers=(1, 10, 100, 1000),
            halve=False,
        ),
    }

    @staticmethod
    def run(cfg: Config) -> CnnOrder:
        """Train the ensembles once and read everything from them."""
        train, test = pair(cfg.data, cfg.n, cfg.n_test, seed=cfg.seed, halve=cfg.halve)
        pca = image_pca(train.x)
        spec, recipe = _cnn(cfg, train)
        projections = [ComponentProjection.fit(train, p, pca=pca).transform(test) for p in cfg.numbers]
        nets, found = histories(spec, cfg.nets, train, recipe, test, *projections, label="Training CNNs")
        order, half = found[0], cfg.nets // 2
        linear_spec = ModelSpec(
            name="linear_fcn",
            classes=train.n_classes,
            shape=train.shape,
            initialiser="xavier_uniform",
            options={"depth": 2, "units": 256},
        )
        linear_recipe = Recipe(lr=cfg.linear_lr, batch_size=100, epochs=cfg.linear_epochs, seed=cfg.seed + 50)
        _, (linear,) = histories(
            linear_spec, cfg.linear_nets, train, linear_recipe, test, label="Training linear networks"
        )
        critical = critical_component(train, test, pca=pca)
        solved = critical.defined
        features = penultimate_features(trained_models(spec, nets[:1])[0], test.x)
        start = penultimate_features(spec(cfg.seed + 999), test.x)
        neighbours = [min(k, len(test) - 1) for k in KS]
        by_k = discriminabilities(test.x, test.y, ks=neighbours)
        scores = order.scores
        return CnnOrder(
            published_data=cfg.data == "small_mammals",
            numbers=cfg.numbers,
            projected=torch.stack([h.accuracy.mean(0) for h in found[1:]]),
            projected_many=_many(cfg),
            accuracy=order.accuracy.mean(0),
            with_linear=order_correlation(scores, linear.scores, seed=cfg.seed),
            constancy=learning_order_constancy(
                order.networks(slice(0, half)), order.networks(slice(half, None)), seed=cfg.seed
            ),
            with_critical=order_correlation(scores[solved], critical.critical[solved], seed=cfg.seed),
            smoothed=smoothed_correlation(scores[solved], critical.critical[solved], window=_window(solved)),
            smoothed_whitened=smoothed_correlation(
                _whitened(cfg, train, test).scores[solved], critical.critical[solved], window=_window(solved)
            ),
            raw=order_correlation(scores, by_k[1], seed=cfg.seed),
            raw_by_k=torch.stack([torch.corrcoef(torch.stack([scores, row]))[0, 1] for row in by_k]),
            penultimate=order_correlation(scores, discriminability(features, test.y, k=10), seed=cfg.seed),
            untrained=order_correlation(scores, discriminability(start, test.y, k=10)).pointwise.value,
        )

    @staticmethod
    def figure(result: CnnOrder) -> Figure:
        """Accuracy on projected test images over epochs."""
        roles = ("null", "other", "theory", "random labels")
        return curves(
            [
                *(
                    Curve(name=f"{p} components", values=row[None], role=roles[i % 4])
                    for i, (p, row) in enumerate(zip(result.numbers, result.projected, strict=True))
                ),
                Curve(name="whole images", values=result.accuracy[None]),
            ],
            title="Accuracy on images projected to few components",
            alt="Test accuracy over epochs, one curve per number of components",
            x="epoch",
            y="accuracy",
        )

    rules: ClassVar = {
        "pcbias.fig5a": Rule(
            measured=lambda r: {
                **{f"peak epoch, P={p}": float(e) for p, e in zip(r.numbers, r.peaks(), strict=True)},
                "fall at the fewest": r.fall(),
            },
            reproduced=lambda r: is_non_decreasing(r.peaks()),
            partly=lambda r: r.peaks()[0] <= r.peaks()[-1] and r.fall() > 0.02,
            null=lambda r: {"epochs": float(len(r.accuracy))},
        ),
        "pcbias.fig5b": Rule(
            measured=lambda r: {
                **{
                    f"peak epoch, P={p}": float(e) for p, e in zip(r.numbers, r.peaks(many=True), strict=True)
                },
                "fall at the fewest": r.fall(many=True),
            },
            reproduced=lambda r: is_non_decreasing(r.peaks(many=True)),
            partly=lambda r: r.peaks(many=True)[0] <= r.peaks(many=True)[-1] and r.fall(many=True) > 0.02,
            null=lambda r: {"epochs": float(r.projected_many.shape[1])},
        ),
        "loc.fig6a": Rule(
            measured=lambda r: {"r": r.with_linear.pointwise.value, "rank": r.with_linear.rank},
            reproduced=lambda r: r.with_linear.pointwise.value >= 0.75,
            partly=lambda r: r.with_linear.pointwise.value > 0.5,
            spread=lambda r: {"r": (r.with_linear.pointwise.high - r.with_linear.pointwise.low) / 3.92},
            null=lambda r: {
                "CNNs with CNNs": r.constancy.value.value,
                "chance, sd": r.with_linear.chance.spread,
            },
        ),
        "loc.fig6b": Rule(
            measured=lambda r: {
                "smoothed": r.smoothed,
                "pointwise": r.with_critical.pointwise.value,
                "20 bins": r.with_critical.binned,
            },
            reproduced=lambda r: r.smoothed <= -0.8,
            partly=lambda r: r.with_critical.pointwise.value < -0.3,
            spread=lambda r: {
                "pointwise": (r.with_critical.pointwise.high - r.with_critical.pointwise.low) / 3.92
            },
            null=lambda r: {
                "networks on whitened images, smoothed": r.smoothed_whitened,
                "chance, sd": r.with_critical.chance.spread,
            },
        ),
        "spectral.table1.raw": Rule(
            measured=lambda r: {
                "r": r.raw.pointwise.value,
                **{f"k={k}": float(v) for k, v in zip(KS, r.raw_by_k, strict=True)},
            },
            reproduced=lambda r: r.published_data and abs(r.raw.pointwise.value - 0.46) <= 0.15,
            partly=lambda r: r.raw.pointwise.value > 0.1,
            spread=lambda r: {"r": (r.raw.pointwise.high - r.raw.pointwise.low) / 3.92},
            null=lambda r: {"chance, sd": r.raw.chance.spread},
            note="other images than the four published sets, so at most partly",
        ),
        "spectral.table1.penultimate": Rule(
            measured=lambda r: {"r": r.penultimate.pointwise.value, "raw": r.raw.pointwise.value},
            reproduced=lambda r: (
                r.published_data
                and abs(r.penultimate.pointwise.value - 0.85) <= 0.15
                and r.penultimate.pointwise.value > r.raw.pointwise.value
            ),
            partly=lambda r: r.penultimate.pointwise.value > r.raw.pointwise.value,
            spread=lambda r: {"r": (r.penultimate.pointwise.high - r.penultimate.pointwise.low) / 3.92},
            null=lambda r: {"untrained network": r.untrained},
            note="other images than the four published sets, so at most partly",
        ),
    }


def _window(solved: Tensor) -> int:
    return 10 if int(solved.sum()) >= 200 else 2


def _cnn(cfg: "CnnLearningOrder.Config", train: ImageData) -> tuple[ModelSpec, Recipe]:
    spec = ModelSpec(name=cfg.model, classes=train.n_classes, shape=train.shape, options=dict(cfg.options))
    return spec, Recipe(lr=cfg.lr, batch_size=32, epochs=cfg.epochs, seed=cfg.seed)


def _whitened(cfg: "CnnLearningOrder.Config", train: ImageData, test: ImageData) -> AccessibilityHistory:
    white = ZCAWhitening.fit(train)
    spec, recipe = _cnn(cfg, train)
    nets = max(2, cfg.nets // 2)
    _, (history,) = histories(
        spec, nets, white.transform(train), recipe, white.transform(test), label="Training on whitened images"
    )
    return history


def _many(cfg: "CnnLearningOrder.Config") -> Tensor:
    train, test = pair(cfg.many, cfg.n, cfg.n_test, seed=cfg.seed, halve=cfg.halve)
    pca = image_pca(train.x)
    spec, recipe = _cnn(cfg, train)
    probes = [ComponentProjection.fit(train, p, pca=pca).transform(test) for p in cfg.numbers]
    nets = max(2, cfg.nets // 2)
    _, found = histories(spec, nets, train, recipe, *probes, label="Training on ten classes")
    return torch.stack([h.accuracy.mean(0) for h in found])
