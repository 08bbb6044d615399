"""The order in which a small CNN learns, beside linear networks and scores that need no training."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions.labels import shuffled_labels
from firstlight.data.interventions.principal_components import ComponentProjection, ZCAWhitening
from firstlight.maths.correlation import pearson
from firstlight.maths.pca import PCA, image_pca
from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from firstlight.measures.learning_order.critical_component import critical_component
from firstlight.measures.learning_order.discriminability import (
    discriminabilities,
    discriminability,
    penultimate_features,
)
from firstlight.training.ensemble import Trained
from reproduce.catalogue import study
from reproduce.evidence import Measured, Series, by
from reproduce.studies.learning_order.common import (
    SMOKE_CNN,
    CnnConfig,
    CurveStudy,
    ensemble_seed,
    histories,
    linear_network,
    pair,
    random_directions,
    training_accuracy,
)
from reproduce.studies.learning_order.order_curves import smoothed_correlation

KS = (1, 10, 50)
LINEAR = "correlation with linear networks"
SMOOTHED, POINTWISE = ("correlation with the critical component" + how for how in (" smoothed", ""))
RAW, PENULTIMATE = "discriminability in pixels", "discriminability in the last hidden layer"


@study(
    "pcbias.fig5a",
    "pcbias.fig5b",
    "loc.fig6a",
    "loc.fig6b",
    "spectral.table1.raw",
    "spectral.table1.penultimate",
)
class CnnOrder(CurveStudy):
    """What predicts the order in which a CNN learns: linear networks, components, neighbours?"""

    @dataclass(frozen=True, kw_only=True)
    class Config(CnnConfig):
        """Data and networks."""

        many: str = "cifar10"  # ten classes, for the second study of projections
        n: int = 2000
        n_test: int = 1000
        lr: float = 0.05
        epochs: int = 25
        nets: int = 2
        linear_nets: int = 4
        linear_lr: float = 0.003
        linear_epochs: int = 10
        numbers: tuple[int, ...] = (2, 5, 20, 100)

    drawn = "P = "
    axes = ("epoch", "test accuracy on P components")
    scales = {
        "smoke": Config(
            **SMOKE_CNN,
            many="photos",
            n=200,
            n_test=100,
            epochs=2,
            linear_nets=2,
            linear_epochs=2,
            numbers=(2, 5, 20),
        ),
        "desk": Config(),
        "night": Config(n=5000, halve=False, epochs=40, linear_epochs=20),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train the ensembles once and read everything from them."""
        train, test = pair(cfg.data, cfg.n, cfg.n_test, seed=cfg.seed, halve=cfg.halve)
        pca = image_pca(train.x)
        nets, order, peaks = _projected(cfg, train, test, pca, cfg.nets)
        scores = order.scores
        other = pair(cfg.many, cfg.n, cfg.n_test, seed=cfg.seed, halve=cfg.halve)
        many_nets, _, many = _projected(cfg, *other, image_pca(other[0].x), max(1, cfg.nets // 2))
        return {
            **peaks,
            **{f"{name} with ten classes": v for name, v in many.items() if not isinstance(v, Tensor)},
            "training accuracy": training_accuracy(nets),
            "training accuracy with ten classes": training_accuracy(many_nets),
            "CNNs with CNNs": float(pearson(*order.by_network[:2])),
            LINEAR: float(pearson(scores, _linear_scores(cfg, train, test))),
            f"{LINEAR} on shuffled labels": float(
                pearson(scores, _linear_scores(cfg, shuffled_labels(train, seed=cfg.seed), test))
            ),
            **_critical(cfg, train, test, pca, scores),
            **_neighbours(cfg, test, nets[0], scores),
        }


def _projected(
    cfg: CnnOrder.Config, train: ImageData, test: ImageData, pca: PCA, nets: int
) -> tuple[list[Trained], AccessibilityHistory, dict[str, float | Series | Tensor]]:
    """Train CNNs; when does the accuracy on test images peak that are projected to few components?"""
    ends = (cfg.numbers[0], cfg.numbers[-1])
    control = random_directions(pca, seed=cfg.seed)
    probes = [ComponentProjection.fit(train, p, pca=pca).transform(test) for p in cfg.numbers]
    probes += [ComponentProjection.fit(train, p, pca=control).transform(test) for p in ends]
    spec, recipe = cfg.spec(train), cfg.recipe(lr=cfg.lr, epochs=cfg.epochs)
    members, (order, *probed) = histories(spec, nets, train, recipe, test, *probes, label="Training CNNs")
    rows = [history.accuracy.mean(0) for history in probed]
    times = [(int(row.argmax()) + 1) / len(row) for row in rows]
    count = len(cfg.numbers)
    return (
        members,
        order,
        {
            "peak time": by(cfg.numbers, times[:count]),
            "peak time on random directions": by(ends, times[count:]),
            "fall of accuracy": float(rows[0].max() - rows[0][-1]),
            **{f"P = {p}": row for p, row in zip(cfg.numbers, rows, strict=False)},
            "P = all": order.accuracy.mean(0),
        },
    )


def _linear_scores(cfg: CnnOrder.Config, train: ImageData, test: ImageData) -> Tensor:
    """Accessibility in two-layer linear networks."""
    seed = ensemble_seed(cfg.seed) + 50
    recipe = cfg.recipe(lr=cfg.linear_lr, batch_size=100, epochs=cfg.linear_epochs, seed=seed)
    spec = linear_network(train, depth=2)
    _, (history,) = histories(spec, cfg.linear_nets, train, recipe, test, label="Training linear networks")
    return history.scores


def _critical(
    cfg: CnnOrder.Config, train: ImageData, test: ImageData, pca: PCA, scores: Tensor
) -> dict[str, float]:
    """Accessibility against the critical component, also of networks on whitened images."""
    critical = critical_component(train, test, pca=pca)
    solved, component = critical.defined, critical.critical[critical.defined]
    window = 10 if int(solved.sum()) >= 200 else 2
    white = ZCAWhitening.fit(train, pca=pca)
    parts, nets = [white.transform(part) for part in (train, test)], max(1, cfg.nets // 2)
    recipe = cfg.recipe(lr=cfg.lr, epochs=cfg.epochs)
    _, (whitened,) = histories(
        cfg.spec(train), nets, parts[0], recipe, parts[1], label="Training on whitened images"
    )
    rows = {"": scores[solved], " when whitened": whitened.scores[solved]}
    return {
        **{SMOOTHED + how: smoothed_correlation(row, component, window=window) for how, row in rows.items()},
        **{POINTWISE + how: float(pearson(row, component.double())) for how, row in rows.items()},
    }


def _neighbours(cfg: CnnOrder.Config, test: ImageData, net: Trained, scores: Tensor) -> Measured:
    """Accessibility against the share of neighbours of the same class, in pixels and in a network."""
    by_k = discriminabilities(test.x, test.y, ks=[min(k, len(test) - 1) for k in KS])
    dealt = torch.randperm(len(test), generator=generator_from("dealt", cfg.seed))
    spec = cfg.spec(test)
    trained, untrained = (
        discriminability(penultimate_features(model, test.x), test.y, k=10)
        for model in (net.into(spec(net.seed)), spec(ensemble_seed(cfg.seed) + 999))
    )
    return {
        RAW: by([cfg.data], [float(pearson(scores, by_k[1]))]),
        f"{RAW} dealt at random": float(pearson(scores, by_k[1][dealt])),
        f"{RAW} by number of neighbours": by(KS, [float(pearson(scores, row)) for row in by_k]),
        PENULTIMATE: by([cfg.data], [float(pearson(scores, trained))]),
        f"{PENULTIMATE} before training": float(pearson(scores, untrained)),
    }
