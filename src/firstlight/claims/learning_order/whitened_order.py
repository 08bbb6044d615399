"""Learning-order constancy with and without whitening, at matched training accuracy."""

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import histories, images
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.images import ImageData
from firstlight.data.interventions import ChannelNormalisation, ZCAWhitening
from firstlight.figures import Curve, Figure, curves
from firstlight.measures.learning_order import (
    AccessibilityHistory,
    Constancy,
    learning_order_constancy,
    matched,
    running_constancy,
)
from firstlight.models import ModelSpec
from firstlight.training import Recipe


@dataclass(frozen=True, kw_only=True)
class Whitening(Result):
    """One architecture on natural and on whitened images."""

    natural: Constancy  # at matched training accuracy
    whitened: Constancy
    natural_end: float  # constancy at the end of training, not matched
    whitened_end: float
    natural_curve: Float[Tensor, " epochs"]
    whitened_curve: Float[Tensor, " epochs"]

    @property
    def drop(self) -> float:
        """Loss of constancy by whitening, all examples."""
        return self.natural.value.value - self.whitened.value.value

    @property
    def fast_drop(self) -> float:
        """The same among the fastest fifth; NaN-free: 0 where it is undefined."""
        if self.natural.fastest is None or self.whitened.fastest is None:
            return 0.0
        return self.natural.fastest.value - self.whitened.fastest.value


@dataclass(frozen=True, kw_only=True)
class WhitenedOrder(Result):
    """Linear and convolutional networks."""

    linear: Whitening
    cnn: Whitening


@study("loc.fig7a", "loc.fig7b")
class WhiteningAndOrder:
    """Does whitening the images break the constancy of the learning order?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks; the accessibility is that of the training images."""

        data: str = "cats_dogs"
        n: int = 2000  # more than the 768 pixels: with fewer, the drop is trivial
        n_cnn: int = 1000
        nets: int = 10  # per ensemble; three ensembles, the third picks the fastest fifth
        cnn_nets: int = 3
        epochs: int = 20
        cnn_epochs: int = 12
        lr: float = 0.001
        cnn_lr: float = 0.05
        model: str = "small"
        width: float = 0.5
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            data="photos:coffee/flower",
            n=900,
            n_cnn=100,
            nets=2,
            cnn_nets=1,
            epochs=2,
            cnn_epochs=2,
            width=0.1,
        ),
        "desk": Config(),
        "paper": Config(
            n=10_000, n_cnn=10_000, cnn_nets=10, epochs=200, cnn_epochs=100, model="vgg19", width=1.0
        ),
    }

    @staticmethod
    def run(cfg: Config) -> WhitenedOrder:
        """Three ensembles in each condition."""
        return WhitenedOrder(linear=_compared(cfg, linear=True), cnn=_compared(cfg, linear=False))

    @staticmethod
    def figure(result: WhitenedOrder) -> Figure:
        """Constancy of the order learned so far."""
        return curves(
            [
                Curve(name="linear, natural", values=result.linear.natural_curve[None]),
                Curve(
                    name="linear, whitened", values=result.linear.whitened_curve[None], role="random labels"
                ),
            ],
            title="Learning-order constancy",
            alt="Correlation of the learning order of two ensembles, epoch by epoch, natural and whitened",
            x="epoch",
            y="constancy up to this epoch",
        )

    rules: ClassVar = {
        "loc.fig7a": Rule(
            measured=lambda r: {
                "natural": r.linear.natural.value.value,
                "whitened": r.linear.whitened.value.value,
                "drop": r.linear.drop,
                "drop, fastest fifth": r.linear.fast_drop,
            },
            reproduced=lambda r: r.linear.drop > 0.2,
            partly=lambda r: r.linear.drop > 0.15,
            spread=lambda r: {
                "natural": (r.linear.natural.value.high - r.linear.natural.value.low) / 3.92,
                "whitened": (r.linear.whitened.value.high - r.linear.whitened.value.low) / 3.92,
            },
            null=lambda r: {
                "accuracy, natural": r.linear.natural.accuracy[0],
                "accuracy, whitened": r.linear.whitened.accuracy[0],
                "drop at the end, accuracy not matched": r.linear.natural_end - r.linear.whitened_end,
            },
        ),
        "loc.fig7b": Rule(
            measured=lambda r: {
                "natural": r.cnn.natural.value.value,
                "whitened": r.cnn.whitened.value.value,
                "drop": r.cnn.drop,
                "drop, fastest fifth": r.cnn.fast_drop,
            },
            reproduced=lambda r: r.cnn.drop < r.linear.drop and r.cnn.fast_drop > r.cnn.drop,
            partly=lambda r: r.cnn.natural.value.value >= r.cnn.whitened.value.value,
            spread=lambda r: {
                "natural": (r.cnn.natural.value.high - r.cnn.natural.value.low) / 3.92,
                "whitened": (r.cnn.whitened.value.high - r.cnn.whitened.value.low) / 3.92,
            },
            null=lambda r: {
                "drop in linear networks": r.linear.drop,
                "accuracy, natural": r.cnn.natural.accuracy[0],
                "accuracy, whitened": r.cnn.whitened.accuracy[0],
                "drop at the end, accuracy not matched": r.cnn.natural_end - r.cnn.whitened_end,
            },
        ),
    }


def _compared(cfg: "WhiteningAndOrder.Config", *, linear: bool) -> Whitening:
    raw = images(cfg.data, "train", cfg.n if linear else cfg.n_cnn, seed=cfg.seed)
    natural = ChannelNormalisation.fit(raw).transform(raw)
    # the whitening is that of all images, also where the CNNs see fewer of them than there are pixels
    whole = (
        natural
        if linear
        else ChannelNormalisation.fit(raw).transform(images(cfg.data, "train", cfg.n, seed=cfg.seed))
    )
    white = ZCAWhitening.fit(whole).transform(natural)
    found = [_ensembles(cfg, data, linear=linear) for data in (natural, white)]
    cut = [matched(a, b) for a, b in zip(*found, strict=True)]
    constancies = [
        learning_order_constancy(cut[0][i], cut[1][i], third=cut[2][i], seed=cfg.seed) for i in range(2)
    ]
    ends = [learning_order_constancy(f[0], f[1], seed=cfg.seed).value.value for f in found]
    return Whitening(
        natural=constancies[0],
        whitened=constancies[1],
        natural_end=ends[0],
        whitened_end=ends[1],
        natural_curve=running_constancy(found[0][0], found[0][1]),
        whitened_curve=running_constancy(found[1][0], found[1][1]),
    )


def _ensembles(
    cfg: "WhiteningAndOrder.Config", train: ImageData, *, linear: bool
) -> list[AccessibilityHistory]:
    if linear:
        spec = ModelSpec(
            name="linear_fcn",
            classes=train.n_classes,
            shape=train.shape,
            initialiser="xavier_uniform",
            options={"depth": 1},
        )
        recipe = Recipe(lr=cfg.lr, batch_size=100, epochs=cfg.epochs, seed=cfg.seed)
    else:
        options = {"width": cfg.width} if cfg.model == "small" else {}
        spec = ModelSpec(name=cfg.model, classes=train.n_classes, shape=train.shape, options=options)
        recipe = Recipe(lr=cfg.cnn_lr, batch_size=32, epochs=cfg.cnn_epochs, seed=cfg.seed)
    each = cfg.nets if linear else cfg.cnn_nets
    _, (history,) = histories(spec, 3 * each, train, recipe, train, label="Training ensembles")
    return [history.networks(slice(i * each, (i + 1) * each)) for i in range(3)]
