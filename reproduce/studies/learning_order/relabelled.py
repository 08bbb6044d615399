"""Labels that are separable in few or many leading components."""

from dataclasses import dataclass
from typing import Literal

from torch import Tensor

from firstlight.data.images import ImageData
from firstlight.data.interventions.labels import SeparatorLabels
from firstlight.maths.correlation import pearson
from firstlight.maths.pca import PCA, image_pca
from reproduce.catalogue import study
from reproduce.evidence import Measured, Series, by
from reproduce.studies.learning_order.common import (
    SMOKE_CNN,
    CnnConfig,
    CurveStudy,
    histories,
    normalised,
    random_directions,
)

STARTS: tuple[Literal["true", "shuffled"], ...] = ("true", "shuffled")


@study("interv.fig11a", "interv.fig11b", "interv.relabel_uncorrelated")
class Relabelled(CurveStudy):
    """Are labels that are separable in fewer leading components learned faster?"""

    @dataclass(frozen=True, kw_only=True)
    class Config(CnnConfig):
        """Data and networks."""

        n: int = 1500  # more than the 768 pixels
        numbers: tuple[int, ...] = (10, 50, 500)
        epochs: int = 15
        lr: float = 0.05
        uncorrelated_components: int = 20

    drawn = "P = "
    axes = ("epoch", "training accuracy on labels separable in P components")
    scales = {
        "smoke": Config(**SMOKE_CNN, n=200, numbers=(5, 20, 50), epochs=2, uncorrelated_components=5),
        "desk": Config(),
        "night": Config(n=5000, halve=False, nets=2),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Relabel, then train."""
        train = normalised(cfg.data, cfg.n, seed=cfg.seed, halve=cfg.halve)
        pca = image_pca(train.x)
        measured: dict[str, float | Series | Tensor] = {}
        for start in STARTS:
            rows = [_curve(cfg, _relabelled(train, p, start, cfg.seed, pca)) for p in cfg.numbers]
            other = random_directions(pca, seed=cfg.seed)
            control = _curve(cfg, _relabelled(train, cfg.numbers[0], start, cfg.seed, other))
            new = _relabelled(train, cfg.uncorrelated_components, start, cfg.seed, pca)
            area = f"area under the curve from {start} labels"
            measured |= {
                area: by(cfg.numbers, [float(row.mean()) for row in rows]),
                f"{area} along random directions": float(control.mean()),
                f"final training accuracy from {start} labels": by(
                    cfg.numbers, [float(row[-1]) for row in rows]
                ),
                f"correlation from {start} labels": float(pearson(new.y.double(), train.y.double())),
            }
            if start == "true":
                measured |= {f"P = {p}": row for p, row in zip(cfg.numbers, rows, strict=True)}
        return measured


def _relabelled(
    train: ImageData, components: int, start: Literal["true", "shuffled"], seed: int, pca: PCA
) -> ImageData:
    return SeparatorLabels.fit(train, components, start=start, seed=seed, pca=pca).transform(train)


def _curve(cfg: Relabelled.Config, train: ImageData) -> Tensor:
    """Training accuracy by epoch, mean over networks."""
    recipe = cfg.recipe(lr=cfg.lr, epochs=cfg.epochs)
    _, (history,) = histories(cfg.spec(train), cfg.nets, train, recipe, train, label="Training on new labels")
    return history.accuracy.mean(0)
