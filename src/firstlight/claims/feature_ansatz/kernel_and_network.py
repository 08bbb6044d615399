"""The same images seen by a learned kernel and by a network: maps, layers, accuracies."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.feature_ansatz.rfm_curves import (
    Curves,
    curves_of,
    feature_map,
    map_correlation,
    next_layer,
    three_parts,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.data import ImageData, load
from firstlight.data.synthetic import digits_in_noise
from firstlight.figures import Figure, heatmap
from firstlight.kernels import ConvKernel
from firstlight.maths import cosine, pearson
from firstlight.models.spec import ModelSpec
from firstlight.training import Recipe, accuracy, train_once


@dataclass(frozen=True, kw_only=True)
class Comparison(Result):
    """Kernel and network side by side.

    Parameters
    ----------
    maps, initial_maps, plain_maps : float
        Mean correlation over test images of the map of M with that of the trained network's first layer,
        with that of its initial weights, and of the identity with the trained one.
    pearson_metric, cosine_metric : float
        Of M with the network's filter covariance.
    deep, deep_initial : Tensor of shape (layers,)
        The same map correlations by layer, Deep ConvRFM against network, on noisy digits.
    table : Tensor of shape (sets, 4)
        Test accuracy of CNTK, ConvRFM, Deep ConvRFM and network, in per cent, by data set.
    peeked : Tensor of shape (sets,)
        ConvRFM minus CNTK when both are chosen on the test set, in per cent, by data set.
    names : tuple of str
        Of the data sets.
    """

    maps: float
    initial_maps: float
    plain_maps: float
    pearson_metric: float
    cosine_metric: float
    deep: Float[Tensor, " layers"]
    deep_initial: Float[Tensor, " layers"]
    table: Float[Tensor, "sets 4"]
    peeked: Float[Tensor, " sets"]
    names: tuple[str, ...]


REPORTED = {"cifar10": (67.74, 67.97, 67.97, 64.90)}


@study("convrfm.fig3b.similar_cnn", "convrfm.fig4.deep_features", "convrfm.fig6a.table")
class KernelAndNetwork:
    """Do learned kernels and networks of the same depth look at the same features and do equally well?

    The network is the unpadded three-convolution one, trained by Adam. Maps of its initial weights and of the identity
    are the nulls: maps of any two feature matrices follow the brightness of the image.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        sets: tuple[str, ...] = ("cifar10", "mnist")  # of the table; the first also gives the maps
        n: int = 250  # training images
        n_valid: int = 100  # choose round, ridge and depth
        n_test: int = 250
        depth: int = 3
        rounds: int = 1
        agop_images: int = 50
        filters: int = 8
        digits: str = "mnist"
        n_digits: int = 200
        side: int = 36
        sigma: float = 0.5
        epochs: int = 10
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(
            sets=("photos",), digits="photos", n=24, n_valid=16, n_test=16, depth=2, rounds=1, agop_images=8, filters=4,
            n_digits=24, epochs=1,
        ),
        "desk": Config(),
        "paper": Config(
            n=50_000, n_valid=5000, n_test=10_000, rounds=5, agop_images=2000, filters=64, n_digits=2000, side=42,
            epochs=500,
        ),
    }  # fmt: skip

    @staticmethod
    def run(cfg: Config) -> Comparison:
        """The table first; the maps of its first data set; then the layers on noisy digits."""
        rows, peeked, first = [], [], None
        for name in cfg.sets:
            splits = _splits(name, cfg)
            layers = _layers(splits, cfg, 2)
            initial, trained = _networks(splits[0], cfg)
            chosen = min(layers, key=lambda layer: float(layer.error.min()))
            scores = (layers[0].test[0], layers[0].test[layers[0].best], chosen.test[chosen.best])
            rows.append([100 * float(s) for s in scores] + [100 * accuracy(trained, splits[2])])
            peeked.append(100 * float(layers[0].peeked.max() - layers[0].peeked[0]))
            first = first or (splits[2].x[:100], layers[0].metrics[-1], _first(initial), _first(trained))
        assert first is not None
        images, metric, before, after = first
        map_of = feature_map(images, metric, 3)
        plain = torch.eye(len(metric), dtype=torch.float64)
        deep, deep_initial = _deep(cfg)
        return Comparison(
            maps=map_correlation(map_of, feature_map(images, after, 3)),
            initial_maps=map_correlation(map_of, feature_map(images, before, 3)),
            plain_maps=map_correlation(feature_map(images, plain, 3), feature_map(images, after, 3)),
            pearson_metric=float(pearson(metric.flatten(), after.flatten())),
            cosine_metric=float(cosine(metric.flatten(), after.flatten())),
            deep=deep,
            deep_initial=deep_initial,
            table=torch.tensor(rows, dtype=torch.float64),
            peeked=torch.tensor(peeked, dtype=torch.float64),
            names=cfg.sets,
        )

    @staticmethod
    def figure(result: Comparison) -> Figure:
        """The table of accuracies."""
        return heatmap(
            result.table,
            rows=result.names,
            columns=("CNTK", "ConvRFM", "Deep ConvRFM", "network"),
            title="Test accuracy in per cent",
            alt="Accuracy of four methods by data set",
            symmetric=False,
        )

    rules: ClassVar = {
        "convrfm.fig3b.similar_cnn": Rule(
            measured=lambda r: {"maps": r.maps, "Pearson": r.pearson_metric, "cosine": r.cosine_metric},
            reproduced=lambda r: r.maps > 0.7,
            partly=lambda r: r.maps > 0.5,
            null=lambda r: {"initial network": r.initial_maps, "identity": r.plain_maps},
        ),
        "convrfm.fig4.deep_features": Rule(
            measured=lambda r: {f"layer {k + 1}": float(v) for k, v in enumerate(r.deep)},
            reproduced=lambda r: bool((r.deep > 0.5).all()),
            partly=lambda r: float(r.deep[0]) > 0.4,
            null=lambda r: {f"initial, layer {k + 1}": float(v) for k, v in enumerate(r.deep_initial)},
        ),
        "convrfm.fig6a.table": Rule(
            measured=lambda r: {
                f"{name} {what}": float(value)
                for name, row in zip(r.names, r.table, strict=True)
                for what, value in zip(("CNTK", "ConvRFM", "Deep", "CNN"), row, strict=True)
            },
            reproduced=lambda r: all(
                abs(float(value) - wanted) <= 1
                for name, row in zip(r.names, r.table, strict=True)
                for value, wanted in zip(row, REPORTED.get(name, (-99.0,) * 4), strict=True)
            ),
            partly=lambda r: bool((r.table[:, 1] >= r.table[:, 0] - 0.5).all()),
            null=lambda r: {
                f"{n}, gain when chosen on test": float(p) for n, p in zip(r.names, r.peeked, strict=True)
            },
            note="a few hundred images instead of whole training sets; SVHN, CIFAR-100, GTSRB and EMNIST need "
            "the user's files",
        ),
    }


def _splits(name: str, cfg: "KernelAndNetwork.Config") -> list[ImageData]:
    train, valid = three_parts(load(name, split="train", seed=0), cfg.n, cfg.n_valid, seed=cfg.seed)
    return [train, valid, load(name, split="test", n=cfg.n_test, seed=cfg.seed)]


def _layers(splits: list[ImageData], cfg: "KernelAndNetwork.Config", count: int) -> list[Curves]:
    found = []
    for layer in range(count):
        curves = curves_of(
            splits[0], splits[1], splits[2], kernel=ConvKernel(depth=cfg.depth - layer), rounds=cfg.rounds,
            agop_images=cfg.agop_images, seed=cfg.seed,
        )  # fmt: skip
        found.append(curves)
        if layer + 1 < count:
            metric = curves.metrics[curves.best]
            splits = next_layer(splits, metric, filters=cfg.filters, size=3, seed=cfg.seed + layer)
    return found


def _networks(train: ImageData, cfg: "KernelAndNetwork.Config") -> tuple[nn.Module, nn.Module]:
    options = {"depth": cfg.depth, "channels": 32}
    spec = ModelSpec(name="cnfa_cnn", classes=train.n_classes, shape=train.shape, options=options)
    recipe = Recipe(optimiser="adam", lr=1e-3, batch_size=32, epochs=cfg.epochs, seed=cfg.seed)
    trained = train_once(spec, train, recipe, show=False)
    return spec(cfg.seed), trained.into(spec(cfg.seed))


def _convolutions(model: nn.Module) -> list[nn.Conv2d]:
    return [m for m in model.modules() if isinstance(m, nn.Conv2d)]


def _first(model: nn.Module) -> Tensor:
    weight = _convolutions(model)[0].weight.detach().flatten(1).double()
    return weight.T @ weight


def _deep(cfg: "KernelAndNetwork.Config") -> tuple[Tensor, Tensor]:
    """Map correlations by layer on noisy digits; each side's second layer sees its own features."""
    grey = load(cfg.digits, split="train", seed=0).map(lambda x: x.mean(1, keepdim=True))
    drawn = digits_in_noise(grey, cfg.n_digits + 200, sigma=cfg.sigma, seed=cfg.seed, side=cfg.side)
    index = torch.arange(len(drawn))
    train, valid = drawn.take(index[: cfg.n_digits]), drawn.take(index[cfg.n_digits :])
    splits = [train, valid, valid]
    initial, trained = _networks(train, cfg)
    found: list[list[float]] = [[], []]
    inputs = {"kernel": valid.x[:50], "initial": valid.x[:50], "trained": valid.x[:50]}
    for layer in range(2):
        curves = curves_of(
            splits[0], splits[1], splits[2], kernel=ConvKernel(depth=cfg.depth - layer), rounds=cfg.rounds,
            agop_images=cfg.agop_images, seed=cfg.seed,
        )  # fmt: skip
        own = feature_map(inputs["kernel"], curves.metrics[curves.best], 3)
        for row, (name, model) in zip(found, (("trained", trained), ("initial", initial)), strict=True):
            conv = _convolutions(model)[layer]
            weight = conv.weight.detach().flatten(1).double()
            row.append(map_correlation(own, feature_map(inputs[name], weight.T @ weight, 3)))
            inputs[name] = torch.relu(conv(inputs[name])).detach()
        if layer == 0:
            metric = curves.metrics[curves.best]
            splits = next_layer(splits, metric, filters=cfg.filters, size=3, seed=cfg.seed)
            inputs["kernel"] = splits[1].x[:50]
    return torch.tensor(found[0], dtype=torch.float64), torch.tensor(found[1], dtype=torch.float64)
