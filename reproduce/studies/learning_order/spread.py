"""Studies of the spread between networks: how far they agree along each component."""

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.data import ImageData
from firstlight.maths import image_pca
from firstlight.models import build
from firstlight.models.fully_connected import TwoLayerReLU
from firstlight.training import Recipe, train_ensemble
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured
from reproduce.studies.learning_order import common
from reproduce.studies.learning_order import deep_linear as dl
from reproduce.studies.learning_order.compact_representation import (
    ComponentConvergence,
    component_convergence,
)
from reproduce.studies.learning_order.deep_linear import principal_moments
from reproduce.studies.learning_order.principal_components import ZCAWhitening
from reproduce.studies.learning_order.two_layer_relu import exact_step

SPREAD, DISTANCE = "order of the spread left", "order of the distance left"


@study("deeplin.fig2.left", "pcbias.fig4a", "pcbias.fig4c.whitened")
class ComponentSpread(Study):
    """Do linear networks agree first along the leading principal components, unless the data are whitened?"""

    # Data and networks. One layer is trained by SGD on cross-entropy, two by descent on the squared loss.
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

    drawn = {"natural": "trained", "whitened": "null"}
    axes, log_axes = ("principal component", "spread left"), "xy"
    scales = {
        "smoke": dict(
            one_layer_data="photos", data="photos", pair="photos:coffee/flower", n=900, halve=True, width=32, nets=2,
            epochs=2, steps=4,
        )
    }  # fmt: skip

    def run(self) -> Measured:
        """Three data sets, natural and whitened."""
        natural, white, accuracy = _one_layer(self)
        two, two_white, excess = _two_layers(self, self.data)
        both, both_white, _ = _two_layers(self, self.pair)
        assert two.distance is not None
        ratios = [a / b for a, b in (common.bands(part.share_left()[-1]) for part in (both, both_white))]
        return {
            f"{SPREAD} with one layer": common.order_by_index(natural),
            f"{SPREAD} with one layer when whitened": common.order_by_index(white),
            "training accuracy of one layer": accuracy,
            DISTANCE: common.order_by_index(two.distance[1] / two.distance[0]),
            SPREAD: common.order_by_index(two.share_left()[1]),
            f"{SPREAD} when whitened": common.order_by_index(two_white.share_left()[1]),
            "excess loss left": excess,
            "leading / trailing": ratios[0],
            "leading / trailing when whitened": ratios[1],
            "natural": two.share_left()[-1],
            "whitened": two_white.share_left()[-1],
        }


def _one_layer(cfg: ComponentSpread) -> tuple[Tensor, Tensor, float]:
    """Share of the spread left by SGD, on natural and whitened images, and the accuracy on natural ones."""
    train = common.normalised(cfg.one_layer_data, cfg.n, seed=cfg.seed, halve=True)
    pca = image_pca(train.x)
    basis = pca.truncated(pca.rank(rtol=1e-9)).basis
    spec = common.linear_network(train, depth=1)
    recipe = Recipe(lr=cfg.lr, batch_size=100, epochs=cfg.epochs, seed=common.ensemble_seed(cfg.seed))
    steps = (0, recipe.total_steps(len(train)))
    watch = common.CompactWatch(train.shape, steps)
    shares, accuracies = [], []
    for part in (train, ZCAWhitening.fit(train, pca=pca).transform(train)):
        nets = train_ensemble(spec, cfg.nets, part, recipe, observe=watch, label="Training one layer")
        weights = torch.stack([net.records[0]["weights"] for net in nets])
        # the softmax never trains the mean over classes, whose spread would hide the effect
        convergence = component_convergence(weights, basis, class_mean_removed=True)
        shares.append(convergence.share_left()[-1])
        accuracies.append(common.training_accuracy(nets))
    return shares[0], shares[1], accuracies[0]


def _two_layers(cfg: ComponentSpread, name: str) -> tuple[ComponentConvergence, ComponentConvergence, float]:
    """Convergence on natural and on whitened images, and the excess loss left on natural ones."""
    train = common.normalised(name, cfg.n, seed=cfg.seed, halve=cfg.halve)
    moments = _moments(train)
    natural, excess = _descent(moments, cfg, rate=cfg.rate)
    whitened, _ = _descent(_whitened(moments), cfg, rate=cfg.whitened_rate)
    return natural, whitened, excess


def _moments(train: ImageData) -> dl.PrincipalMoments:
    (x,) = common.centred(train)
    return dl.principal_moments(x, common.one_hot(train))


def _whitened(moments: dl.PrincipalMoments, *, eps: float = 1e-8) -> dl.PrincipalMoments:
    """Moments of the whitened images: whitening scales the coordinates and rotates nothing, so none is decomposed."""
    variances = moments.values / moments.n_samples
    scale = (variances + eps * variances[0]).rsqrt()
    return replace(moments, values=moments.values * scale.square(), cross=moments.cross * scale)


def _descent(
    moments: dl.PrincipalMoments, cfg: ComponentSpread, *, rate: float
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
        optimum=moments.optimum,
        class_mean_removed=False,
    )
    return convergence, float(losses[-1] / losses[0])


RELU = "spread left early in ReLU networks along components"


@study("pcbias.fig4b", "pcbias.fig4d")
class ConvSpread(common.CnnStudy):
    """Do convolutional networks, linear and ReLU, also agree first along leading components?"""

    # Data and networks.
    n: int = 2500
    linear_model: str = "small_linear"
    nets: int = 2  # their spread is what is measured
    linear_epochs: int = 20
    epochs: int = 12
    lr: float = 0.2
    relu_lr: float = 0.1

    scales = {
        "smoke": dict(**common.SMOKE_CNN, n=64, linear_epochs=2, epochs=2),
        "night": dict(halve=False, n=10_000, nets=4, linear_epochs=60, epochs=20),
    }

    def run(self) -> Measured:
        """Squared loss for the linear networks, whose optimum is known; cross-entropy for the others."""
        train = common.normalised(self.data, self.n, seed=self.seed, halve=self.halve)
        white = ZCAWhitening.fit(train).transform(train)
        linear, linear_accuracy = _convergence(train, self, is_linear=True)
        linear_white, _ = _convergence(white, self, is_linear=True)
        relu, relu_accuracy = _convergence(train, self, is_linear=False)
        relu_white, _ = _convergence(white, self, is_linear=False)
        assert linear.distance is not None
        leading, trailing = common.bands(relu.share_left()[1])
        leading_white, trailing_white = common.bands(relu_white.share_left()[1])
        return {
            DISTANCE: common.order_by_index(linear.distance[1] / linear.distance[0]),
            SPREAD: common.order_by_index(linear.share_left()[1]),
            f"{SPREAD} when whitened": common.order_by_index(linear_white.share_left()[1]),
            "training accuracy of linear networks": linear_accuracy,
            f"{RELU} 1-5": leading,
            f"{RELU} 50-100": trailing,
            f"{RELU} 1-5 when whitened": leading_white,
            f"{RELU} 50-100 when whitened": trailing_white,
            "training accuracy of ReLU networks": relu_accuracy,
        }


def _convergence(train: ImageData, cfg: ConvSpread, *, is_linear: bool) -> tuple[ComponentConvergence, float]:
    """Convergence at half (linear) or a quarter (ReLU) of training and at its end, and training accuracy."""
    (x,) = common.centred(train)
    moments = principal_moments(x, common.one_hot(train))
    basis = moments.basis[:, : int((moments.values > 1e-9 * moments.values[0]).sum())]
    if is_linear:
        name, recipe = cfg.linear_model, cfg.recipe(lr=cfg.lr, epochs=cfg.linear_epochs, loss="mse")
    else:
        seed = common.ensemble_seed(cfg.seed) + 100
        name, recipe = cfg.model, cfg.recipe(lr=cfg.relu_lr, epochs=cfg.epochs, seed=seed)
    spec = cfg.spec(train, model=name)
    total = recipe.total_steps(len(train))
    steps = (0, max(1, total // (2 if is_linear else 4)), total)
    watch = common.CompactWatch(train.shape, steps, is_linear)
    nets = train_ensemble(spec, cfg.nets, train, recipe, observe=watch, label=f"Training {name}")
    weights = torch.stack([net.records[0]["weights"] for net in nets])
    goal: Tensor | None = moments.optimum @ moments.basis.T if is_linear else None
    convergence = component_convergence(weights, basis, optimum=goal, class_mean_removed=not is_linear)
    if not is_linear:
        return convergence, common.training_accuracy(nets)
    frequencies = train.counts.double() / len(train)
    right = (torch.einsum("nq,akq->ank", x, weights[:, -1].double()) + frequencies).argmax(2) == train.y
    return convergence, float(right.double().mean())


@study("relu2.fig2.right")
class ReluSpread(Study):
    """Does a two-layer ReLU network with a trained first layer show the order of linear networks?"""

    # Data and networks.
    data: str = "mnist:4/9"
    n: int = 2000
    halve: bool = True
    units: int = 200
    nets: int = 4  # their spread is what is measured
    steps: int = 100
    rate: float = 0.5  # of the stability limit of the linear map

    scales = {
        "smoke": dict(data="photos:coffee/flower", n=100, units=10, nets=2, steps=3),
        "night": dict(halve=False, n=5000, nets=6),
    }

    def run(self) -> Measured:
        """Full-batch descent from paired weights."""
        train = common.normalised(self.data, self.n, seed=self.seed, halve=self.halve)
        natural, accuracy = _share_left(train, self)
        white, _ = _share_left(ZCAWhitening.fit(train).transform(train), self)
        return {
            "order of the spread left": common.order_by_index(natural),
            "order of the spread left when whitened": common.order_by_index(white),
            "training accuracy": accuracy,
        }


def _share_left(train: ImageData, cfg: ReluSpread) -> tuple[Tensor, float]:
    """Spread of the linear part after training over that before, by component; and training accuracy."""
    (x,) = common.centred(train)
    y = 2.0 * train.y.double() - 1
    moments = principal_moments(x, y[:, None])
    rank = int((moments.values > 1e-9 * moments.values[0]).sum())
    before, after, accuracy = [], [], 0.0
    for net in range(cfg.nets):
        options: dict[str, Any] = {
            "units": cfg.units,
            "paired": True,
            "seed": common.ensemble_seed(cfg.seed) + net,
        }
        model = build("two_layer_relu", classes=1, shape=train.shape, **options)
        assert isinstance(model, TwoLayerReLU)
        weights, readout = model.hidden.weight.detach().double(), model.readout.double()
        rate = cfg.rate * 4 / float(readout.square().sum()) / float(moments.values[0])
        before.append(readout @ weights @ moments.basis)
        for _ in range(cfg.steps):
            weights = weights + exact_step(readout, weights, x, y, rate=rate)
        after.append(readout @ weights @ moments.basis)
        outputs = (x @ weights.T).clamp(min=0) @ readout
        accuracy += float((outputs.sign() == y).double().mean()) / cfg.nets
    return (torch.stack(after).std(0) / torch.stack(before).std(0))[:rank], accuracy
