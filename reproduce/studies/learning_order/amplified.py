"""Early stopping after the top or the bottom components were amplified."""

from dataclasses import dataclass

import torch

from firstlight.data.images import ImageData
from firstlight.data.interventions.principal_components import Amplification
from firstlight.maths.pca import image_pca
from firstlight.training.observers import geometric_steps
from reproduce.catalogue import study
from reproduce.evidence import Measured, by
from reproduce.studies.learning_order.common import (
    SMOKE_CNN,
    CnnConfig,
    CurveStudy,
    histories,
    linear_accuracy,
    pair,
    training_accuracy,
)

CONDITIONS = ("top", "none", "bottom")
LINEAR, CNN = "gap of linear networks", "gap of CNNs"


@study("interv.fig9a", "interv.fig9b")
class Amplified(CurveStudy):
    """Does early stopping gain more when the lowest components are amplified than when the highest are?"""

    @dataclass(frozen=True, kw_only=True)
    class Config(CnnConfig):
        """Data and networks. A gap is the best less the final test accuracy."""

        n: int = 2500  # as published: fewer than the 3072 pixels, so that there is something to overfit
        n_cnn: int = 600  # few, so that networks on amplified images memorise them too
        n_test: int = 2000
        halve_linear: bool = False
        steps: int = 100_000  # of the linear network
        epochs: int = 120
        lr: float = 0.05

    drawn = {"top amplified": "theory", "as they are": "null", "bottom amplified": "trained"}
    axes = ("step", "test accuracy of a linear network")
    at, log_axes = "step", "x"
    scales = {
        "smoke": Config(**SMOKE_CNN, halve_linear=True, n=60, n_cnn=60, n_test=60, steps=50, epochs=2),
        "desk": Config(),
        "night": Config(n_cnn=2500, halve=False, nets=2),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Closed form for the linear network, training for the CNN."""
        steps = geometric_steps(cfg.steps, count=60)[1:]
        linear, fitted = [], []
        for train, test in _conditions(
            *pair(cfg.data, cfg.n, cfg.n_test, seed=cfg.seed, halve=cfg.halve_linear)
        ):
            linear.append(linear_accuracy(train, test, rate=1, steps=steps))
            fitted.append(float(linear_accuracy(train, train, rate=1, steps=steps[-1:])))
        cnn, cnn_fitted = [], []
        small = pair(cfg.data, cfg.n_cnn, cfg.n_test, seed=cfg.seed, halve=cfg.halve)
        for train, test in _conditions(*small):
            probe = test.sample(min(1000, len(test)), seed=cfg.seed)
            recipe = cfg.recipe(lr=cfg.lr, epochs=cfg.epochs)
            nets, (history,) = histories(
                cfg.spec(train), cfg.nets, train, recipe, probe, label="Training CNNs"
            )
            cnn.append(history.accuracy.mean(0))
            cnn_fitted.append(training_accuracy(nets))
        return {
            LINEAR: by(CONDITIONS, [float(row.max() - row[-1]) for row in linear]),
            CNN: by(CONDITIONS, [float(row.max() - row[-1]) for row in cnn]),
            "training accuracy of linear networks": by(CONDITIONS, fitted),
            "training accuracy of CNNs": by(CONDITIONS, cnn_fitted),
            "step": torch.tensor(steps),
            "top amplified": linear[0],
            "as they are": linear[1],
            "bottom amplified": linear[2],
        }


def _conditions(train: ImageData, test: ImageData) -> list[tuple[ImageData, ImageData]]:
    pca = image_pca(train.x)
    top = Amplification.fit(train, end="top", pca=pca)
    bottom = Amplification.fit(train, end="bottom", pca=pca)
    return [
        (top.transform(train), top.transform(test)),
        (train, test),
        (bottom.transform(train), bottom.transform(test)),
    ]
