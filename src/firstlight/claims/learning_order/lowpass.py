"""Projection on the leading components beside a blur."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import torch
from jaxtyping import Float
from scipy.ndimage import gaussian_filter
from torch import Tensor

from firstlight.claims.learning_order._shared import images
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.data.interventions import ComponentProjection
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import image_pca, pearson


@dataclass(frozen=True, kw_only=True)
class LowPass(Result):
    """Mean correlation of projected and blurred images, by width of the blur."""

    widths: tuple[float, ...]
    leading: Float[Tensor, " widths"]  # images on their leading components
    random: Float[Tensor, " widths"]  # on as many random directions
    spread: float  # over images, at the best width


@study("intro.pca_vs_lowpass")
class ProjectionIsABlur:
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

    scales: ClassVar = {
        "smoke": Config(data="photos", n=100, shown=20, widths=(2.0, 4.0)),
        "desk": Config(),
        "paper": Config(data="stl10", n=5000),
    }

    @staticmethod
    def run(cfg: Config) -> LowPass:
        """Blur each channel; reflect at the borders."""
        train = images(cfg.data, "train", cfg.n, seed=cfg.seed, halve=False)
        pca = image_pca(train.x)
        part = train.take(torch.arange(min(cfg.shown, cfg.n)))
        projected = ComponentProjection.fit(train, cfg.components, pca=pca).transform(part).x.flatten(1)
        d = pca.dimension
        draw = torch.randn(
            d, cfg.components, generator=generator_from("directions", cfg.seed), dtype=torch.float64
        )
        basis, _ = torch.linalg.qr(draw)
        rows = part.x.flatten(1).double() - pca.mean
        random = pca.mean + rows @ basis @ basis.T
        leading, control, spreads = [], [], []
        for width in cfg.widths:
            blurred = gaussian_filter(part.x.numpy(), sigma=(0, 0, width, width))
            flat = torch.from_numpy(np.ascontiguousarray(blurred)).flatten(1)
            each = pearson(projected, flat)
            leading.append(each.mean())
            spreads.append(float(each.std()))
            control.append(pearson(random, flat).mean())
        best = int(torch.stack(leading).argmax())
        return LowPass(
            widths=cfg.widths, leading=torch.stack(leading), random=torch.stack(control), spread=spreads[best]
        )

    @staticmethod
    def figure(result: LowPass) -> Figure:
        """Correlation against the width of the blur."""
        return curves(
            [
                Curve(name="leading components", values=result.leading[None]),
                Curve(name="random directions", values=result.random[None], role="null"),
            ],
            title="Projection beside a blur",
            alt="Correlation of projected and blurred images against the width of the blur",
            x="width of the blur (pixels)",
            y="correlation",
            at=result.widths,
        )

    rules: ClassVar = {
        "intro.pca_vs_lowpass": Rule(
            measured=lambda r: {
                "correlation": float(r.leading.max()),
                "at width": r.widths[int(r.leading.argmax())],
            },
            reproduced=lambda r: float(r.leading.max()) > 0.8,
            partly=lambda r: float(r.leading.max()) > 0.8,
            spread=lambda r: {"correlation": r.spread},
            null=lambda r: {"random directions": float(r.random.max())},
        )
    }
