"""Spread over linear networks and distance to the optimum, by principal component."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.data.interventions.principal_components import ZCAWhitening
from firstlight.maths.pca import image_pca
from firstlight.measures.learning_order.compact_representation import (
    ComponentConvergence,
    component_convergence,
)
from firstlight.theory import deep_linear as dl
from firstlight.training.ensemble import train_ensemble
from firstlight.training.recipe import Recipe
from reproduce.catalogue import study
from reproduce.evidence import Measured
from reproduce.studies.learning_order.common import (
    CompactWatch,
    CurveStudy,
    bands,
    centred,
    ensemble_seed,
    linear_network,
    normalised,
    one_hot,
    order_by_index,
    training_accuracy,
)

SPREAD, DISTANCE = "order of the spread left", "order of the distance left"


@study("deeplin.fig2.left", "pcbias.fig4a", "pcbias.fig4c.whitened")
class ComponentSpread(CurveStudy):
    """Do linear networks agree first along the leading principal components, unless the data are whitened?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and networks. One layer is trained by SGD on cross-entropy, two by descent on the squared loss."""

        one_layer_data: str = "mnist"
        data: str = "cifar10"
        pair: str = "cats_dogs"
        n: int = 5000  # more than the 3072 pixels
        halve: bool = False
        nets: int = 3  # their spread is what is measured
        epochs: int = 20
        lr: float = 0.01
        width: int = 256
        steps: int = 300
        rate: float = 1.0  # of the stability limit 1 / (L d_1), natural images
        whitened_rate: float = 0.03  # of the same limit, or all is over in a step
        seed: int = 0

    drawn = {"natural": "trained", "whitened": "null"}
    axes = ("principal component", "spread left")
    log_axes = "xy"
    scales = {
        "smoke": Config(
            one_layer_data="photos",
            data="photos",
            pair="photos:coffee/flower",
            n=900,
            halve=True,
            width=32,
            nets=2,
            epochs=2,
            steps=4,
        ),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Three data sets, natural and whitened."""
        natural, white, accuracy = _one_layer(cfg)
        two, two_white, excess = _two_layers(cfg, cfg.data)
        both, both_white, _ = _two_layers(cfg, cfg.pair)
        assert two.distance is not None
        ratios = [a / b for a, b in (bands(part.share_left()[-1]) for part in (both, both_white))]
        return {
            f"{SPREAD} with one layer": order_by_index(natural),
            f"{SPREAD} with one layer when whitened": order_by_index(white),
            "training accuracy of one layer": accuracy,
            DISTANCE: order_by_index(two.distance[1] / two.distance[0]),
            SPREAD: order_by_index(two.share_left()[1]),
            f"{SPREAD} when whitened": order_by_index(two_white.share_left()[1]),
            "excess loss left": excess,
            "leading / trailing": ratios[0],
            "leading / trailing when whitened": ratios[1],
            "natural": two.share_left()[-1],
            "whitened": two_white.share_left()[-1],
        }


def _one_layer(cfg: ComponentSpread.Config) -> tuple[Tensor, Tensor, float]:
    """Share of the spread left by SGD, on natural and whitened images, and the accuracy on natural ones."""
    train = normalised(cfg.one_layer_data, cfg.n, seed=cfg.seed, halve=True)
    pca = image_pca(train.x)
    basis = pca.truncated(pca.rank(rtol=1e-9)).basis
    spec = linear_network(train, depth=1)
    recipe = Recipe(lr=cfg.lr, batch_size=100, epochs=cfg.epochs, seed=ensemble_seed(cfg.seed))
    steps = (0, recipe.total_steps(len(train)))
    watch = CompactWatch(train.shape, steps)
    shares, accuracies = [], []
    for part in (train, ZCAWhitening.fit(train, pca=pca).transform(train)):
        nets = train_ensemble(spec, cfg.nets, part, recipe, observe=watch, label="Training one layer")
        weights = torch.stack([net.records[0]["weights"] for net in nets])
        # the softmax never trains the mean over classes, whose spread would hide the effect
        convergence = component_convergence(weights, basis, steps=steps, class_mean_removed=True)
        shares.append(convergence.share_left()[-1])
        accuracies.append(training_accuracy(nets))
    return shares[0], shares[1], accuracies[0]


def _two_layers(
    cfg: ComponentSpread.Config, name: str
) -> tuple[ComponentConvergence, ComponentConvergence, float]:
    """Convergence on natural and on whitened images, and the excess loss left on natural ones."""
    train = normalised(name, cfg.n, seed=cfg.seed, halve=cfg.halve)
    moments = _moments(train)
    natural, excess = _descent(moments, cfg, rate=cfg.rate)
    whitened, _ = _descent(_whitened(moments), cfg, rate=cfg.whitened_rate)
    return natural, whitened, excess


def _moments(train: ImageData) -> dl.PrincipalMoments:
    (x,) = centred(train)
    return dl.principal_moments(x, one_hot(train))


def _whitened(moments: dl.PrincipalMoments, *, eps: float = 1e-8) -> dl.PrincipalMoments:
    """Moments of the whitened images: whitening scales the coordinates and rotates nothing, so none is decomposed."""
    variances = moments.values / moments.n_samples
    scale = (variances + eps * variances[0]).rsqrt()
    return replace(moments, values=moments.values * scale.square(), cross=moments.cross * scale)


def _descent(
    moments: dl.PrincipalMoments, cfg: ComponentSpread.Config, *, rate: float
) -> tuple[ComponentConvergence, float]:
    """Full-batch descent on the squared loss from Glorot weights, in principal coordinates."""
    k, q = moments.cross.shape
    rank = int((moments.values > 1e-9 * moments.values[0]).sum())
    size = rate / (2 * float(moments.values[0]))
    widths = (q, cfg.width, k)
    snapshots = []
    for net in range(cfg.nets):
        generator = generator_from("component spread", cfg.seed, net)
        bottom, top = dl.drawn_layers(
            widths, dl.glorot_variances(widths), generator=generator, distribution="uniform"
        )
        bottom = bottom @ moments.basis
        kept = [top @ bottom]
        for step in range(1, cfg.steps + 1):
            error = (top @ bottom) * moments.values - moments.cross
            bottom, top = bottom - size * top.T @ error, top - size * error @ bottom.T
            if step in (cfg.steps // 2, cfg.steps):
                kept.append(top @ bottom)
        snapshots.append(torch.stack(kept))
    weights = torch.stack(snapshots)
    losses = ((weights - moments.optimum).square() * moments.values).sum((0, 2, 3))
    convergence = component_convergence(
        weights,
        torch.eye(q, rank, dtype=torch.float64),
        steps=(0, cfg.steps // 2, cfg.steps),
        optimum=moments.optimum,
        class_mean_removed=False,
    )
    return convergence, float(losses[-1] / losses[0])
