"""What the interventions on the data promise by construction."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight import data
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions import Amplification, SeparatorLabels, ZCAWhitening
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import image_pca


@dataclass(frozen=True, kw_only=True)
class Promises(Result):
    """How well each promise is kept."""

    separator_errors: int  # training points on the wrong side after relabelling
    relabelled: float  # share of points whose label changed
    whitened: float  # largest deviation of the covariance from the identity
    variance_ratio: Float[Tensor, " d"]  # after over before amplification
    amplified: int  # number of leading components that were stretched


@study("interv.relabel_separable", "interv.whitening_identity", "interv.amplify_factor")
class InterventionsExact:
    """Do relabelling, whitening and amplification do exactly what they say?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Size of the data."""

        n: int = 500
        components: int = 10  # P of the relabelling
        seed: int = 0

    scales: ClassVar = {"smoke": Config(), "desk": Config(), "paper": Config(n=2000, components=50)}

    @staticmethod
    def run(cfg: Config) -> Promises:
        """Check on photographs and on Gaussian data."""
        photos = data.load("photos:coffee/flower", n=cfg.n, seed=cfg.seed)
        labels = SeparatorLabels.fit(photos, cfg.components)
        new = labels.transform(photos)
        scores = labels.pca.project(new.x.flatten(1)) @ labels.weights + labels.bias
        generator = generator_from("interventions", cfg.seed)
        scales = torch.logspace(1, -1, 20, dtype=torch.float64).reshape(1, 4, 5)
        x = torch.randn(cfg.n, 1, 4, 5, generator=generator, dtype=torch.float64) * scales
        cloud = ImageData(x, torch.zeros(cfg.n).long(), ("all",))
        white = ZCAWhitening.fit(cloud, eps=0.0).transform(cloud).x.flatten(1)
        centred = white - white.mean(0)
        pca = image_pca(x)
        stretch = Amplification.fit(cloud, share=0.15, standardise=False, pca=pca)
        after = pca.project(stretch.transform(cloud).x.flatten(1)).var(0, correction=0)
        return Promises(
            separator_errors=int(((scores > 0).long() != new.y).sum()),
            relabelled=float((new.y != photos.y).double().mean()),
            whitened=float((centred.T @ centred / cfg.n - torch.eye(20).double()).abs().max()),
            variance_ratio=after / pca.variances,
            amplified=stretch.last - stretch.first,
        )

    @staticmethod
    def figure(result: Promises) -> Figure:
        """Variance after over before amplification."""
        return curves(
            [Curve(name="variance ratio", values=result.variance_ratio[None])],
            title="Amplification by ten",
            alt="Variance ratio by component: 100 for the leading ones, 1 for the rest",
            x="component",
            y="variance after / before",
            log_y=True,
        )

    rules: ClassVar = {
        "interv.relabel_separable": Rule(
            measured=lambda r: {"errors": float(r.separator_errors), "relabelled": r.relabelled},
            reproduced=lambda r: r.separator_errors == 0,
            null=lambda r: {"errors before relabelling, share": r.relabelled},
        ),
        "interv.whitening_identity": Rule(
            measured=lambda r: {"max |cov - I|": r.whitened}, reproduced=lambda r: r.whitened < 1e-8
        ),
        "interv.amplify_factor": Rule(
            measured=lambda r: {
                "ratio - 100, worst": float((r.variance_ratio[: r.amplified] - 100).abs().max()),
                "ratio - 1 elsewhere, worst": float((r.variance_ratio[r.amplified :] - 1).abs().max()),
            },
            reproduced=lambda r: bool(
                ((r.variance_ratio[: r.amplified] / 100 - 1).abs() < 1e-8).all()
                and ((r.variance_ratio[r.amplified :] - 1).abs() < 1e-8).all()
            ),
        ),
    }
