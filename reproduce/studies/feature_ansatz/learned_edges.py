"""Study of what the learned metric looks at: edge detectors, on images and on photographs it never saw."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight.data.catalogue import load
from firstlight.data.images import ImageData
from firstlight.data.interventions.labels import shuffled_labels
from firstlight.kernels.kernel import ConvKernel
from firstlight.maths.correlation import cosine
from firstlight.maths.patches import sobel_magnitude
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.pictures import picture_grid
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.feature_ansatz.common import (
    Splits,
    feature_map,
    fitted_round,
    grey,
    map_correlation,
    plain_metric,
    two_parts,
    updated_metric,
)


@study("convrfm.fig3a.edges", "convrfm.fig3c.transfer")
class LearnedEdges(Study):
    """Does a ConvRFM learn edge detectors, and do they find edges in photographs it never saw?

    Eigenvectors come from CIFAR-10 with a three-layer CNTK (3 x 3); maps of photographs from digits with a one-layer
    NNGP (5 x 5). Shuffled labels are the null.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """The same number of images for both kernels."""

        colour: str = "cifar10"  # data of the CNTK
        grey: str = "mnist"  # data of the NNGP
        n: int = 600
        n_valid: int = 100  # they choose the ridge
        rounds: int = 2  # updates of M
        agop_images: int = 50
        photos: int = 64  # photographs on which maps are compared
        seed: int = 0

    scales = {
        "smoke": Config(
            colour="photos", grey="photos", n=24, n_valid=16, rounds=1, agop_images=200, photos=8
        ),
        "desk": Config(),
        "night": Config(n=2000, n_valid=500, rounds=3, agop_images=200, photos=500),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Learn both metrics, with true and with shuffled labels."""
        colour, shuffled = _metrics(_loaded(cfg.colour, cfg), ConvKernel(depth=3), cfg)
        digits = _metrics(grey(_loaded(cfg.grey, cfg)), ConvKernel(depth=1, size=5, kind="nngp"), cfg)
        photos = grey(load("photos", split="test", n=cfg.photos, seed=cfg.seed)).x
        edges = sobel_magnitude(photos)[:, 0, 2:-2, 2:-2].flatten(1).double()  # where 5 x 5 patches lie
        plain = torch.eye(len(digits[0]), dtype=torch.float64)
        names = ("true labels", "shuffled labels", "the identity")
        return {
            "eigenvectors below 0.2": float((_mean_response(colour) < 0.2).sum()),
            "eigenvectors below 0.2 with shuffled labels": float((_mean_response(shuffled) < 0.2).sum()),
            "cosine to the metric of shuffled labels": float(cosine(colour.flatten(), shuffled.flatten())),
            **{
                f"correlation with edges of {name}": map_correlation(feature_map(photos, metric, 5), edges)
                for name, metric in zip(names, (*digits, plain), strict=True)
            },
            "pictures": torch.cat([_leading(m).T.reshape(-1, 3, 3, 3) for m in (colour, shuffled)]),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the eigenvectors of the first seed: true labels above, shuffled labels below."""
        return picture_grid(
            evidence.arrays["pictures"][0],
            title="Leading eigenvectors of M: true labels above, shuffled labels below",
            alt="Two rows of eight small patterns, one for true and one for shuffled labels",
            columns=8,
        )


def _loaded(name: str, cfg: LearnedEdges.Config) -> ImageData:
    return load(name, split="train", n=max(2000, cfg.n + cfg.n_valid), seed=0)


def _metrics(data: ImageData, kernel: ConvKernel, cfg: LearnedEdges.Config) -> tuple[Tensor, Tensor]:
    """The last M with true and with shuffled labels, from the same images."""
    metrics = []
    for labelled in (data, shuffled_labels(data, seed=cfg.seed)):
        train, valid = two_parts(labelled, cfg.n, cfg.n_valid, seed=cfg.seed)
        splits = Splits(train=train, valid=valid, test=valid)
        metric = plain_metric(splits, kernel)
        for _ in range(cfg.rounds):
            fit = fitted_round(splits, kernel, metric)
            metric = updated_metric(splits, kernel, fit, agop_images=cfg.agop_images, seed=cfg.seed)
        metrics.append(metric)
    return metrics[0], metrics[1]


def _leading(metric: Tensor) -> Tensor:
    """Eight leading eigenvectors, as columns."""
    vectors: Tensor = torch.linalg.eigh(metric).eigenvectors
    return vectors.flip(1)[:, :8]


def _mean_response(metric: Tensor) -> Tensor:
    """Response of the leading eigenvectors to a constant patch of length one."""
    sums: Tensor = _leading(metric).sum(0).abs()
    return sums / math.sqrt(len(metric))
