"""Study of the assumption: are labels visible in average patches?"""

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from firstlight.claims.first_layer.support import basis, images
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data.interventions import random_labels
from firstlight.figures import Figure, heatmap
from firstlight.maths import PatchGeometry
from firstlight.measures.first_layer import label_correlation


@dataclass(frozen=True, kw_only=True)
class LabelCorrelationResult(Result):
    """Correlation of average-patch coordinates with class membership."""

    true: Float[Tensor, "classes m"]
    random: Float[Tensor, "classes m"]
    classes: tuple[str, ...]


@study("profile.fig5.label_corr")
class LabelCorrelation:
    """Is class membership visible in the average patch of an image?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        dataset: str = "cifar10"
        n_images: int = 50_000
        seed: int = 0

    scales = {
        "smoke": Config(dataset="photos", n_images=200),
        "desk": Config(),
        "paper": Config(),
    }

    @staticmethod
    def run(cfg: Config) -> LabelCorrelationResult:
        """Correlate, with true and with random labels."""
        data = images(cfg.dataset, cfg.n_images, seed=cfg.seed)
        pca, geometry = basis(data), PatchGeometry.square(3, padding=1)
        return LabelCorrelationResult(
            true=label_correlation(data, pca, geometry),
            random=label_correlation(random_labels(data, seed=cfg.seed), pca, geometry),
            classes=data.classes,
        )

    @staticmethod
    def figure(result: LabelCorrelationResult) -> Figure:
        """Show the matrix."""
        return heatmap(
            result.true,
            rows=result.classes,
            columns=[str(i + 1) for i in range(result.true.shape[1])],
            title="Correlation of average-patch coordinates with class membership",
            alt="A matrix of small correlations, classes by components",
            x="patch component",
        )

    rules = {
        "profile.fig5.label_corr": Rule(
            measured=lambda r: {
                "median": float(r.true.abs().median()),
                "95th percentile": float(r.true.abs().quantile(0.95)),
                "largest": float(r.true.abs().max()),
            },
            null=lambda r: {
                "random labels, median": float(r.random.abs().median()),
                "random labels, largest": float(r.random.abs().max()),
            },
            reproduced=lambda r: r.true.abs().median() < 0.1 and r.true.abs().quantile(0.95) < 0.3,
            partly=lambda r: r.true.abs().median() < 0.25,
            note="Small, but many times what random labels give; the 12-class ImageNet subset is not judged.",
        ),
    }
