"""Learning-order constancy with and without whitening, at matched training accuracy."""

from dataclasses import dataclass

from firstlight.data.images import ImageData
from firstlight.data.interventions.normalisation import ChannelNormalisation
from firstlight.data.interventions.principal_components import ZCAWhitening
from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from firstlight.measures.learning_order.constancy import learning_order_constancy
from reproduce.catalogue import study
from reproduce.evidence import Measured
from reproduce.studies.learning_order.common import (
    SMOKE_CNN,
    CnnConfig,
    CurveStudy,
    histories,
    images,
    linear_network,
)
from reproduce.studies.learning_order.order_curves import matched, running_constancy


@study("loc.fig7a", "loc.fig7b")
class WhitenedOrder(CurveStudy):
    """Does whitening the images break the constancy of the learning order?"""

    @dataclass(frozen=True, kw_only=True)
    class Config(CnnConfig):
        """Data and networks; the accessibility is that of the training images."""

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
        "smoke": Config(**SMOKE_CNN, n=900, n_cnn=100, nets=2, cnn_nets=1, epochs=2, cnn_epochs=2, lr=0.001),
        "desk": Config(),
        "night": Config(n=5000, n_cnn=2500, halve=False, nets=10, cnn_nets=3, epochs=100, cnn_epochs=20),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Three ensembles in each condition."""
        return {**_compared(cfg, linear=True), **_compared(cfg, linear=False)}


def _compared(cfg: WhitenedOrder.Config, *, linear: bool) -> Measured:
    """Constancy of one kind of network on natural and on whitened images, cut at the same accuracy."""
    everything = images(cfg.data, "train", cfg.n, seed=cfg.seed, halve=cfg.halve)
    raw = everything if linear else images(cfg.data, "train", cfg.n_cnn, seed=cfg.seed, halve=cfg.halve)
    scale = ChannelNormalisation.fit(raw)
    natural = scale.transform(raw)
    # the whitening is that of all images, also where the CNNs see fewer of them than there are pixels
    white = ZCAWhitening.fit(scale.transform(everything)).transform(natural)
    ensembles = [_ensembles(cfg, part, linear=linear) for part in (natural, white)]
    cut = [matched(a, b) for a, b in zip(*ensembles, strict=True)]
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
        f"whitened constancy of {kind}": after.value.value,
        f"drop in {kind}": before.value.value - after.value.value,
        f"drop in {kind} among the fastest": fast[0] - fast[1],
        f"drop in {kind} without whitening": abs(before.value.value - again.value.value),
        f"matched accuracy of {kind}": min(before.accuracy[0], after.accuracy[0]),
        f"{kind}, natural": running_constancy(ensembles[0][0], ensembles[0][1]),
        f"{kind}, whitened": running_constancy(ensembles[1][0], ensembles[1][1]),
    }


def _ensembles(cfg: WhitenedOrder.Config, train: ImageData, *, linear: bool) -> list[AccessibilityHistory]:
    if linear:
        spec = linear_network(train, depth=1)
        recipe = cfg.recipe(lr=cfg.lr, batch_size=100, epochs=cfg.epochs)
    else:
        spec, recipe = cfg.spec(train), cfg.recipe(lr=cfg.cnn_lr, epochs=cfg.cnn_epochs)
    each = cfg.nets if linear else cfg.cnn_nets
    _, (history,) = histories(spec, 3 * each, train, recipe, train, label="Training ensembles")
    return [history.networks(slice(i * each, (i + 1) * each)) for i in range(3)]
