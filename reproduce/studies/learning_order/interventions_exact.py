"""What the interventions on the data promise by construction."""

from dataclasses import dataclass

import torch

from firstlight import data
from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions.labels import SeparatorLabels
from firstlight.data.interventions.principal_components import Amplification, ZCAWhitening
from firstlight.maths.pca import image_pca
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


@study("interv.relabel_separable", "interv.whitening_identity", "interv.amplify_factor")
class InterventionsExact(Study):
    """Do relabelling, whitening and amplification do exactly what they say?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Size of the data."""

        n: int = 500
        components: int = 10  # P of the relabelling
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
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
        rows = white - white.mean(0)
        pca = image_pca(x)
        stretch = Amplification.fit(cloud, share=0.15, standardise=False, pca=pca)
        after = pca.project(stretch.transform(cloud).x.flatten(1)).var(0, correction=0)
        ratio, count = after / pca.variances, stretch.last - stretch.first
        expected = torch.cat([torch.full((count,), 100.0), torch.ones(len(ratio) - count)]).double()
        return {
            "separator errors": float(((scores > 0).long() != new.y).sum()),
            "separator errors before relabelling": float(((scores > 0).long() != photos.y).sum()),
            "largest |cov - I|": float((rows.T @ rows / cfg.n - torch.eye(20).double()).abs().max()),
            "variance ratio amplified": float(ratio[:count].mean()),
            "worst ratio error": float((ratio / expected - 1).abs().max()),
        }
