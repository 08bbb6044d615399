"""Study of the same images seen by a learned kernel and by a network: maps, layers, accuracies."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.errors import DataUnavailable
from firstlight.data.catalogue import load
from firstlight.data.synthetic.digits import digits_in_noise
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.heatmap import heatmap
from firstlight.training.loop import accuracy
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.feature_ansatz.common import (
    DESK_NETWORK,
    ConvRFM,
    PlainNetwork,
    Splits,
    Stage,
    feature_map,
    grey,
    map_correlation,
    plain_network,
    stages_of,
    two_parts,
)

DESK_MACHINE = ConvRFM(rounds=1)
METHODS = ("CNTK", "ConvRFM", "Deep ConvRFM", "network")
REPORTED = {"cifar10": (67.74, 67.97, 67.97, 64.90), "svhn": (81.38, 85.02, 87.28, 84.48)}


@study(
    "convrfm.fig3b.similar_cnn",
    "convrfm.fig4.deep_features",
    "convrfm.fig6a.table",
    "convrfm.fig6a.svhn_order",
)
class KernelAndNetwork(Study):
    """Do learned kernels and networks of the same depth look at the same features and do equally well?

    The network is the unpadded three-convolution one, trained by Adam. Maps of its initial weights and of the identity
    are the nulls: maps of any two feature matrices follow the brightness of the image.
    """

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Sizes of the table, and of the comparison by layer on noisy digits."""

        data: str = "cifar10"  # of the table and of the maps
        further: tuple[str, ...] = ()  # more rows of the table, where the user has the files
        n: int = 600
        n_valid: int = 150  # choose round, ridge and depth
        n_test: int = 400
        machine: ConvRFM = DESK_MACHINE
        digits: str = "mnist"
        n_digits: int = 300
        side: int = 36
        sigma: float = 0.5
        network: PlainNetwork = DESK_NETWORK
        seed: int = 0

    scales = {
        "smoke": Config(
            data="photos", digits="photos", n=24, n_valid=16, n_test=16, n_digits=24,
            machine=ConvRFM(rounds=1, agop_images=8, filters=4), network=PlainNetwork(depth=2, epochs=1),
        ),
        "desk": Config(),
        "night": Config(
            n=2000, n_valid=500, n_test=2000, n_digits=1000, machine=ConvRFM(rounds=3, agop_images=200, filters=16)
        ),
    }  # fmt: skip

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Fill the table, compare maps on its first data set, then the layers on noisy digits."""
        stages, networks = _fitted(_drawn(cfg.data, cfg), cfg)
        table = {cfg.data: _row(stages, networks[1], cfg)}
        for name in cfg.further:
            try:
                further, (_, trained) = _fitted(_drawn(name, cfg), cfg)
            except DataUnavailable:  # its claim is then not run; the other claims need not wait for it
                continue
            table[name] = _row(further, trained, cfg)
        rows = list(table.values())
        known = {name: row for name, row in table.items() if name in REPORTED}
        return {
            **_maps(stages[0], networks),
            **_by_layer(cfg),
            **{key: by(table, [row[key] for row in rows]) for key in rows[0]},
            "largest deviation from the paper": by(
                known,
                [
                    max(abs(row[m] - reported) for m, reported in zip(METHODS, REPORTED[name], strict=True))
                    for name, row in known.items()
                ],
            ),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the table of accuracies, mean over seeds."""
        return heatmap(
            torch.stack([evidence.table(method).mean(0) for method in METHODS], dim=1),
            rows=[str(point) for point in evidence.points("CNTK")],
            columns=METHODS,
            title="Test accuracy in per cent",
            alt="Accuracy of four methods by data set",
            symmetric=False,
        )


def _drawn(name: str, cfg: KernelAndNetwork.Config) -> Splits:
    train, valid = two_parts(load(name, split="train", seed=0), cfg.n, cfg.n_valid, seed=cfg.seed)
    return Splits(train=train, valid=valid, test=load(name, split="test", n=cfg.n_test, seed=cfg.seed))


def _fitted(splits: Splits, cfg: KernelAndNetwork.Config) -> tuple[list[Stage], tuple[nn.Module, nn.Module]]:
    """Kernels on pixels and on features, and the network, initial and trained."""
    stages = stages_of(splits, cfg.machine, depth=cfg.network.depth, seed=cfg.seed)
    return stages, plain_network(splits.train, cfg.network, seed=cfg.seed)


def _row(stages: list[Stage], trained: nn.Module, cfg: KernelAndNetwork.Config) -> dict[str, float]:
    """Test accuracies in per cent of the four methods and of the null, and how well the network fits."""
    first, chosen = stages[0], min(stages, key=lambda stage: stage.best.error)
    return {
        "CNTK": 100 * first.test_accuracy(first.rounds[0]),
        "ConvRFM": 100 * first.test_accuracy(first.best),
        "Deep ConvRFM": 100 * chosen.test_accuracy(chosen.best),
        "ConvRFM with rotated metric": 100 * first.test_accuracy(first.rotated(seed=cfg.seed)),
        "network": 100 * accuracy(trained, first.splits.test),
        "training accuracy": accuracy(trained, first.splits.train),
    }


def _maps(first: Stage, networks: tuple[nn.Module, nn.Module]) -> dict[str, float]:
    """Correlation over test images of the map of the last M with that of the network's first layer."""
    images, metric = first.splits.test.x[:100], first.rounds[-1].metric
    before, after = (
        feature_map(images, _filter_covariance(_convolutions(model)[0]), 3) for model in networks
    )
    learned = feature_map(images, metric, 3)
    plain = feature_map(images, torch.eye(len(metric), dtype=torch.float64), 3)
    return {
        "correlation of maps": map_correlation(learned, after),
        "correlation of maps with the initial network": map_correlation(learned, before),
        "correlation of maps of the identity": map_correlation(plain, after),
    }


def _by_layer(cfg: KernelAndNetwork.Config) -> Measured:
    """Correlations of maps on noisy digits; each side's second layer sees its own features."""
    drawn = digits_in_noise(
        grey(load(cfg.digits, split="train", seed=0)), cfg.n_digits + 200, sigma=cfg.sigma, seed=cfg.seed,
        side=cfg.side,
    )  # fmt: skip
    index = torch.arange(len(drawn))
    train, unseen = drawn.take(index[: cfg.n_digits]), drawn.take(index[cfg.n_digits :])
    stages, networks = _fitted(Splits(train=train, valid=unseen, test=unseen), cfg)
    correlations: list[list[float]] = []
    for model in networks:
        inputs = unseen.x[:50]
        correlations.append([])
        for stage, conv in zip(stages, _convolutions(model), strict=False):
            learned = feature_map(stage.splits.valid.x[:50], stage.best.metric, 3)
            own = feature_map(inputs, _filter_covariance(conv), 3)
            correlations[-1].append(map_correlation(learned, own))
            inputs = torch.relu(conv(inputs)).detach()
    initial, trained = (by(range(1, len(stages) + 1), row) for row in correlations)
    return {
        "correlation by layer": trained,
        "correlation by layer with the initial network": initial,
        "training accuracy on noisy digits": accuracy(networks[1], train),
    }


def _convolutions(model: nn.Module) -> list[nn.Conv2d]:
    return [m for m in model.modules() if isinstance(m, nn.Conv2d)]


def _filter_covariance(conv: nn.Conv2d) -> Tensor:
    weight = conv.weight.detach().flatten(1).double()
    return weight.T @ weight
