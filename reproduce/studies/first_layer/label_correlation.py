"""Study of the assumption: are labels visible in average patches?"""

from dataclasses import dataclass

from firstlight.data.interventions.labels import random_labels
from firstlight.maths.patches import PatchGeometry
from firstlight.measures.first_layer.consistency import label_correlation
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.heatmap import heatmap
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.first_layer.common import basis, images


@study("profile.fig5.label_corr")
class LabelCorrelation(Study):
    """Is class membership visible in the average patch of an image?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Each seed draws its own half of the images, so that an interval means something."""

        dataset: str = "cifar10"
        n_images: int = 25_000
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", n_images=200),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Correlate, with true and with random labels."""
        data = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        pca, geometry = basis(data), PatchGeometry.square(3, padding=1)
        true = label_correlation(data, pca, geometry)
        random = label_correlation(random_labels(data, seed=cfg.seed), pca, geometry)
        return {
            "median correlation": float(true.abs().median()),
            "95th percentile": float(true.abs().quantile(0.95)),
            "largest correlation": float(true.abs().max()),
            "median with random labels": float(random.abs().median()),
            "correlations": true,
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the matrix of the first seed."""
        matrix = evidence.arrays["correlations"][0]
        return heatmap(
            matrix,
            rows=[str(i + 1) for i in range(len(matrix))],
            columns=[str(i + 1) for i in range(matrix.shape[1])],
            title="Correlation of average-patch coordinates with class membership",
            alt="A matrix of small correlations, classes by components",
            x="patch component",
        )
