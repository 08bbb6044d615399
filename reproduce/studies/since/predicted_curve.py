"""Study of learning curves that are predicted from the covariance of the images."""

from dataclasses import dataclass

import torch

from firstlight.data.catalogue import load
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.since.learning_curve import learning_curve


@study("since.curve")
class PredictedCurve(Study):
    """Does the covariance of the images predict the error of kernel ridge regression at every size?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Images and sizes."""

        images: int = 2000
        sizes: tuple[int, ...] = (32, 128, 512)
        modes: int = 400
        ridge: float = 1e-2
        pooling: int = 4  # side of the squares that are averaged: 8 x 8 grey images
        seed: int = 0

    scales = {
        "smoke": Config(images=128, sizes=(16, 32), modes=60),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Predict and measure on grey, pooled crops of photographs."""
        data = load("photos", n=cfg.images, seed=cfg.seed)
        grey = data.map(lambda x: torch.nn.functional.avg_pool2d(x.mean(1, keepdim=True), cfg.pooling))
        curve = learning_curve(grey, sizes=cfg.sizes, modes=cfg.modes, ridge=cfg.ridge, seed=cfg.seed)
        measured = curve.measured.mean(1)
        return {
            "predicted error": by(cfg.sizes, curve.predicted),
            "measured error": by(cfg.sizes, measured),
            "largest relative error": float(curve.error.max()),
            "relative error of the constant": float(((curve.constant - measured).abs() / measured).max()),
        }
