"""Studies of interventions on pixels and labels."""

from typing import Literal

import numpy as np
import torch
from scipy.ndimage import gaussian_filter
from torch import Tensor

from firstlight.data import ImageData
from firstlight.data.interventions import ChannelNormalisation
from firstlight.maths import PCA, image_pca, pearson
from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from firstlight.measures.learning_order.constancy import learning_order_constancy
from firstlight.training import geometric_steps
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, Series, by
from reproduce.studies.learning_order import common
from reproduce.studies.learning_order.principal_components import (
    Amplification,
    ComponentProjection,
    ZCAWhitening,
)
from reproduce.studies.learning_order.separator_labels import SeparatorLabels

CONDITIONS = ("top", "none", "bottom")
LINEAR, CNN = "gap of linear networks", "gap of CNNs"


@study("interv.fig9a", "interv.fig9b")
class Amplified(common.CnnStudy):
    """Does early stopping gain more when the lowest components are amplified than when the highest are?"""

    # Data and networks. A gap is the best less the final test accuracy.
    n: int = 2500  # as published: fewer than the 3072 pixels, so that there is something to overfit
    n_cnn: int = 600  # few, so that networks on amplified images memorise them too
    n_test: int = 2000
    halve_linear: bool = False
    steps: int = 100_000  # of the linear network
    epochs: int = 120
    lr: float = 0.05

    drawn = {"top amplified": "theory", "as they are": "null", "bottom amplified": "trained"}
    axes = ("step", "test accuracy of a linear network")
    at, log_axes = "step", "x"
    scales = {
        "smoke": dict(**common.SMOKE_CNN, halve_linear=True, n=60, n_cnn=60, n_test=60, steps=50, epochs=2),
        "night": dict(n_cnn=2500, halve=False, nets=2),
    }

    def run(self) -> Measured:
        """Closed form for the linear network, training for the CNN."""
        steps = geometric_steps(self.steps, count=60)[1:]
        linear, fitted = [], []
        large = common.pair(self.data, self.n, self.n_test, seed=self.seed, halve=self.halve_linear)
        for train, test in _conditions(*large):
            linear.append(common.linear_accuracy(train, test, rate=1, steps=steps))
            fitted.append(float(common.linear_accuracy(train, train, rate=1, steps=steps[-1:])))
        cnn, cnn_fitted = [], []
        small = common.pair(self.data, self.n_cnn, self.n_test, seed=self.seed, halve=self.halve)
        for train, test in _conditions(*small):
            probe = test.sample(min(1000, len(test)), seed=self.seed)
            recipe = self.recipe(lr=self.lr, epochs=self.epochs)
            nets, (history,) = common.histories(
                self.spec(train), self.nets, train, recipe, probe, label="Training CNNs"
            )
            cnn.append(history.accuracy.mean(0))
            cnn_fitted.append(common.training_accuracy(nets))
        return {
            LINEAR: by(CONDITIONS, [float(row.max() - row[-1]) for row in linear]),
            CNN: by(CONDITIONS, [float(row.max() - row[-1]) for row in cnn]),
            "training accuracy of linear networks": by(CONDITIONS, fitted),
            "training accuracy of CNNs": by(CONDITIONS, cnn_fitted),
            "step": torch.tensor(steps),
            "top amplified": linear[0],
            "as they are": linear[1],
            "bottom amplified": linear[2],
        }


def _conditions(train: ImageData, test: ImageData) -> list[tuple[ImageData, ImageData]]:
    pca = image_pca(train.x)
    top, bottom = (Amplification.fit(train, end=end, pca=pca) for end in ("top", "bottom"))
    high, low = ((change.transform(train), change.transform(test)) for change in (top, bottom))
    return [high, (train, test), low]


@study("intro.pca_vs_lowpass")
class Lowpass(Study):
    """Does an image on its leading principal components look like a blurred image?"""

    # Images and blurs.
    data: str = "cifar10"
    n: int = 2000
    shown: int = 500  # images that are blurred
    components: int = 20
    widths: tuple[float, ...] = (0.5, 1.0, 1.5, 2.0, 2.5, 3.0, 4.0, 5.0, 6.0, 8.0)  # pixels

    scales = {"smoke": dict(data="photos", n=100, shown=20, widths=(2.0, 4.0))}

    def run(self) -> Measured:
        """Correlate projected and blurred images; the blur reflects at the borders."""
        train = common.images(self.data, "train", self.n, seed=self.seed, halve=False)
        part = train.take(torch.arange(min(self.shown, self.n)))
        pca = image_pca(train.x).truncated(self.components)
        leading, random = (
            ComponentProjection.fit(train, self.components, pca=p).transform(part).x.flatten(1)
            for p in (pca, common.random_directions(pca, seed=self.seed))
        )
        rows, names = [], ("leading components", "random directions")
        for width in self.widths:
            blurred = gaussian_filter(part.x.numpy(), sigma=(0, 0, width, width))
            flat = torch.from_numpy(np.ascontiguousarray(blurred)).flatten(1)
            rows.append([float(pearson(one, flat).mean()) for one in (leading, random)])
        return {
            name: by(self.widths, column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
        }


STARTS: tuple[Literal["true", "shuffled"], ...] = ("true", "shuffled")


@study("interv.fig11a", "interv.fig11b", "interv.relabel_uncorrelated")
class Relabelled(common.CnnStudy):
    """Are labels that are separable in fewer leading components learned faster?"""

    # Data and networks.
    n: int = 1500  # more than the 768 pixels
    numbers: tuple[int, ...] = (10, 50, 500)
    epochs: int = 15
    lr: float = 0.05
    uncorrelated_components: int = 20

    drawn = "P = "
    axes = ("epoch", "training accuracy on labels separable in P components")
    scales = {
        "smoke": dict(**common.SMOKE_CNN, n=200, numbers=(5, 20, 50), epochs=2, uncorrelated_components=5),
        "night": dict(n=5000, halve=False, nets=2),
    }

    def run(self) -> Measured:
        """Relabel, then train."""
        train = common.normalised(self.data, self.n, seed=self.seed, halve=self.halve)
        pca = image_pca(train.x)
        measured: dict[str, float | Series | Tensor] = {}
        for start in STARTS:
            rows = [_curve(self, _relabelled(train, p, start, self.seed, pca)) for p in self.numbers]
            other = common.random_directions(pca, seed=self.seed)
            control = _curve(self, _relabelled(train, self.numbers[0], start, self.seed, other))
            new = _relabelled(train, self.uncorrelated_components, start, self.seed, pca)
            area = f"area under the curve from {start} labels"
            measured |= {
                area: by(self.numbers, [float(row.mean()) for row in rows]),
                f"{area} along random directions": float(control.mean()),
                f"final training accuracy from {start} labels": by(
                    self.numbers, [float(row[-1]) for row in rows]
                ),
                f"correlation from {start} labels": float(pearson(new.y.double(), train.y.double())),
            }
            if start == "true":
                measured |= {f"P = {p}": row for p, row in zip(self.numbers, rows, strict=True)}
        return measured


def _relabelled(
    train: ImageData, components: int, start: Literal["true", "shuffled"], seed: int, pca: PCA
) -> ImageData:
    return SeparatorLabels.fit(train, components, start=start, seed=seed, pca=pca).transform(train)


def _curve(cfg: Relabelled, train: ImageData) -> Tensor:
    """Training accuracy by epoch, mean over networks."""
    recipe = cfg.recipe(lr=cfg.lr, epochs=cfg.epochs)
    _, (history,) = common.histories(
        cfg.spec(train), cfg.nets, train, recipe, train, label="Training on new labels"
    )
    return history.accuracy.mean(0)


@study("loc.fig7a", "loc.fig7b")
class WhitenedOrder(common.CnnStudy):
    """Does whitening the images break the constancy of the learning order?"""

    # Data and networks; the accessibility is that of the training images.
    n: int = 2000  # more than the 768 pixels: with fewer, the drop is trivial
    n_cnn: int = 1000
    nets: int = 3  # per ensemble; three ensembles, the third picks the fastest fifth
    cnn_nets: int = 2
    epochs: int = 40
    cnn_epochs: int = 15
    lr: float = 0.01
    cnn_lr: float = 0.05

    drawn = {"linear networks, natural": "trained", "linear networks, whitened": "random labels"}
    axes = ("epoch", "constancy up to this epoch")
    scales = {
        "smoke": dict(
            **common.SMOKE_CNN, n=900, n_cnn=100, nets=2, cnn_nets=1, epochs=2, cnn_epochs=2, lr=0.001
        ),
        "night": dict(n=5000, n_cnn=2500, halve=False, nets=10, cnn_nets=3, epochs=100, cnn_epochs=20),
    }

    def run(self) -> Measured:
        """Three ensembles in each condition."""
        return {**_compared(self, linear=True), **_compared(self, linear=False)}


def _compared(cfg: WhitenedOrder, *, linear: bool) -> Measured:
    """Constancy of one kind of network on natural and on whitened images, cut at the same accuracy."""
    everything = common.images(cfg.data, "train", cfg.n, seed=cfg.seed, halve=cfg.halve)
    raw = (
        everything if linear else common.images(cfg.data, "train", cfg.n_cnn, seed=cfg.seed, halve=cfg.halve)
    )
    scale = ChannelNormalisation.fit(raw)
    natural = scale.transform(raw)
    # the whitening is that of all images, also where the CNNs see fewer of them than there are pixels
    white = ZCAWhitening.fit(scale.transform(everything)).transform(natural)
    ensembles = [_ensembles(cfg, part, linear=linear) for part in (natural, white)]
    cut = [common.matched(a, b) for a, b in zip(*ensembles, strict=True)]
    before, after = (
        learning_order_constancy(cut[0][i], cut[1][i], third=cut[2][i], seed=cfg.seed) for i in range(2)
    )
    again = learning_order_constancy(cut[0][0], cut[2][0], seed=cfg.seed)
    fast = [
        part.fastest.value if part.fastest else 0.0 for part in (before, after)
    ]  # 0 if all learned at once
    kind = "linear networks" if linear else "CNNs"
    return {
        f"natural constancy of {kind}": before.value.value,
        f"drop in {kind}": before.value.value - after.value.value,
        f"drop in {kind} among the fastest": fast[0] - fast[1],
        f"drop in {kind} without whitening": abs(before.value.value - again.value.value),
        f"matched accuracy of {kind}": min(before.accuracy[0], after.accuracy[0]),
        f"{kind}, natural": common.running_constancy(ensembles[0][0], ensembles[0][1]),
        f"{kind}, whitened": common.running_constancy(ensembles[1][0], ensembles[1][1]),
    }


def _ensembles(cfg: WhitenedOrder, train: ImageData, *, linear: bool) -> list[AccessibilityHistory]:
    if linear:
        spec = common.linear_network(train, depth=1)
        recipe = cfg.recipe(lr=cfg.lr, batch_size=100, epochs=cfg.epochs)
    else:
        spec, recipe = cfg.spec(train), cfg.recipe(lr=cfg.cnn_lr, epochs=cfg.cnn_epochs)
    each = cfg.nets if linear else cfg.cnn_nets
    _, (history,) = common.histories(spec, 3 * each, train, recipe, train, label="Training ensembles")
    return [history.networks(slice(i * each, (i + 1) * each)) for i in range(3)]
