"""Projection on the leading components beside a blur."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from scipy.ndimage import gaussian_filter

from firstlight.data.interventions.principal_components import ComponentProjection
from firstlight.maths.correlation import pearson
from firstlight.maths.pca import image_pca
from reproduce.catalogue import study
from reproduce.studies.learning_order.common import images, random_directions
from reproduce.studies.sweep import SweepStudy


@study("intro.pca_vs_lowpass")
class Lowpass(SweepStudy):
    """Does an image on its leading principal components look like a blurred image?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Images and blurs."""

        data: str = "cifar10"
        n: int = 2000
        shown: int = 500  # images that are blurred
        components: int = 20
        widths: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)  # pixels
        seed: int = 0

    factor, axis = "widths", "width of the blur (pixels)"
    unit = "correlation with the blurred image"
    readings = {"leading components": lambda row: row[0], "random directions": lambda row: row[1]}
    scales = {
        "smoke": Config(data="photos", n=100, shown=20, widths=(2.0, 4.0)),
        "desk": Config(),
    }

    @classmethod
    def outcomes(cls, cfg: Config, values: Sequence[float]) -> list[tuple[float, float]]:
        """Correlate projected and blurred images; the blur reflects at the borders."""
        train = images(cfg.data, "train", cfg.n, seed=cfg.seed, halve=False)
        part = train.take(torch.arange(min(cfg.shown, cfg.n)))
        pca = image_pca(train.x).truncated(cfg.components)
        leading, random = (
            ComponentProjection.fit(train, cfg.components, pca=p).transform(part).x.flatten(1)
            for p in (pca, random_directions(pca, seed=cfg.seed))
        )
        rows = []
        for width in values:
            blurred = gaussian_filter(part.x.numpy(), sigma=(0, 0, width, width))
            flat = torch.from_numpy(np.ascontiguousarray(blurred)).flatten(1)
            rows.append((float(pearson(leading, flat).mean()), float(pearson(random, flat).mean())))
        return rows
