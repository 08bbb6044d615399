"""Studies of ConvRFM: beside networks, on edges, and on local signals."""

import math
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor, nn

from firstlight._internal.executor import map_tasks
from firstlight.data import ImageData, load
from firstlight.data.interventions import shuffled_labels
from firstlight.kernels import ConvKernel
from firstlight.maths import sobel_magnitude
from firstlight.training import accuracy
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.feature_ansatz import common
from reproduce.studies.feature_ansatz.noisy_images import bars_in_noise, digits_in_noise

DESK_MACHINE = common.ConvRFM(rounds=1)
REPORTED = {"cifar10": {"CNTK": 67.74, "ConvRFM": 67.97, "Deep ConvRFM": 67.97, "network": 64.90}}


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

    # Sizes of the table, and of the comparison by layer on noisy digits.
    data: str = "cifar10"  # of the table and of the maps
    n: int = 600
    n_valid: int = 150  # choose round, ridge and depth
    n_test: int = 400
    machine: common.ConvRFM = DESK_MACHINE
    digits: str = "mnist"
    n_digits: int = 300
    side: int = 36
    sigma: float = 0.5
    network: common.PlainNetwork = common.DESK_NETWORK

    scales = {
        "smoke": dict(
            data="photos", digits="photos", n=24, n_valid=16, n_test=16, n_digits=24,
            machine=common.ConvRFM(rounds=1, agop_images=8, filters=4), network=common.PlainNetwork(depth=2, epochs=1),
        ),
        "night": dict(
            n=2000, n_valid=500, n_test=2000, n_digits=1000,
            machine=common.ConvRFM(rounds=3, agop_images=200, filters=16),
        ),
    }  # fmt: skip

    def run(self) -> Measured:
        """Fill a row of the table, compare maps on its data set, then the layers on noisy digits."""
        stages, networks = _fitted(_drawn(self.data, self), self)
        row = _row(stages, networks[1], self)
        reported = {self.data: REPORTED[self.data]} if self.data in REPORTED else {}
        apart = [max(abs(row[m] - v) for m, v in values.items()) for values in reported.values()]
        return {
            **_maps(stages[0], networks),
            **_by_layer(self),
            **{key: by([self.data], [value]) for key, value in row.items()},
            "largest deviation from the paper": by(reported, apart),
        }


def _drawn(name: str, cfg: KernelAndNetwork) -> common.Splits:
    train, valid = common.two_parts(load(name, split="train", seed=0), cfg.n, cfg.n_valid, seed=cfg.seed)
    return common.Splits(train=train, valid=valid, test=load(name, split="test", n=cfg.n_test, seed=cfg.seed))


def _fitted(
    splits: common.Splits, cfg: KernelAndNetwork
) -> tuple[list[common.Stage], tuple[nn.Module, nn.Module]]:
    """Kernels on pixels and on features, and the network, initial and trained."""
    stages = common.stages_of(splits, cfg.machine, depth=cfg.network.depth, seed=cfg.seed)
    return stages, common.plain_network(splits.train, cfg.network, seed=cfg.seed)


def _row(stages: list[common.Stage], trained: nn.Module, cfg: KernelAndNetwork) -> dict[str, float]:
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


def _maps(first: common.Stage, networks: tuple[nn.Module, nn.Module]) -> dict[str, float]:
    """Correlation over test images of the map of the last M with that of the network's first layer."""
    images, metric = first.splits.test.x[:100], first.rounds[-1].metric
    before, after = (
        common.feature_map(images, filter_covariance(convolutions(model)[0]), 3) for model in networks
    )
    learned = common.feature_map(images, metric, 3)
    plain = common.feature_map(images, torch.eye(len(metric), dtype=torch.float64), 3)
    return {
        "correlation of maps": common.map_correlation(learned, after),
        "correlation of maps with the initial network": common.map_correlation(learned, before),
        "correlation of maps of the identity": common.map_correlation(plain, after),
    }


def _by_layer(cfg: KernelAndNetwork) -> Measured:
    """Correlations of maps on noisy digits; each side's second layer sees its own features."""
    drawn = digits_in_noise(
        common.grey(load(cfg.digits, split="train", seed=0)), cfg.n_digits + 200, sigma=cfg.sigma, seed=cfg.seed,
        side=cfg.side,
    )  # fmt: skip
    index = torch.arange(len(drawn))
    train, unseen = drawn.take(index[: cfg.n_digits]), drawn.take(index[cfg.n_digits :])
    stages, networks = _fitted(common.Splits(train=train, valid=unseen, test=unseen), cfg)
    correlations: list[list[float]] = []
    for model in networks:
        inputs = unseen.x[:50]
        correlations.append([])
        for stage, conv in zip(stages, convolutions(model), strict=False):
            learned = common.feature_map(stage.splits.valid.x[:50], stage.best.metric, 3)
            own = common.feature_map(inputs, filter_covariance(conv), 3)
            correlations[-1].append(common.map_correlation(learned, own))
            inputs = torch.relu(conv(inputs)).detach()
    initial, trained = (by(range(1, len(stages) + 1), row) for row in correlations)
    return {
        "correlation by layer": trained,
        "correlation by layer with the initial network": initial,
        "training accuracy on noisy digits": accuracy(networks[1], train),
    }


def convolutions(model: nn.Module) -> list[nn.Conv2d]:
    """Convolutions of a network, in order."""
    return [m for m in model.modules() if isinstance(m, nn.Conv2d)]


def filter_covariance(conv: nn.Conv2d) -> Tensor:
    """W^T W of the flattened filters."""
    weight = conv.weight.detach().flatten(1).double()
    return weight.T @ weight


class LearnedMetrics(Study):
    """Settings of studies that learn M from true and from shuffled labels."""

    n: int = 600
    n_valid: int = 100  # they choose the ridge
    rounds: int = 2  # updates of M
    agop_images: int = 50

    def loaded(self, name: str) -> ImageData:
        """Images to learn from, and to choose the ridge with."""
        return load(name, split="train", n=max(2000, self.n + self.n_valid), seed=0)

    def metrics(self, data: ImageData, kernel: ConvKernel) -> list[Tensor]:
        """The last M with true and with shuffled labels, from the same images."""
        return [
            common.learned_metric(
                common.two_parts(part, self.n, self.n_valid, seed=self.seed),
                kernel,
                rounds=self.rounds,
                agop_images=self.agop_images,
                seed=self.seed,
            )
            for part in (data, shuffled_labels(data, seed=self.seed))
        ]


@study("convrfm.fig3a.edges")
class LearnedEdges(LearnedMetrics):
    """Does a ConvRFM learn edge detectors?

    Eigenvectors come from CIFAR-10 with a three-layer CNTK (3 x 3). Shuffled labels are the null.
    """

    colour: str = "cifar10"

    scales = {
        "smoke": dict(colour="photos", n=24, n_valid=16, rounds=1, agop_images=200),
        "night": dict(n=2000, n_valid=500, rounds=5, agop_images=200),
    }

    def run(self) -> Measured:
        """Learn the metric with true and with shuffled labels."""
        colour, shuffled = self.metrics(self.loaded(self.colour), ConvKernel(depth=3))
        return {
            "eigenvectors below 0.2": float((_mean_response(colour) < 0.2).sum()),
            "eigenvectors below 0.2 with shuffled labels": float((_mean_response(shuffled) < 0.2).sum()),
        }


READINGS = {"": 2, ", by the root": 1}
"""The paper's two maps: |M x| of appendix B, which decides, and |M^1/2 x| of section 2.2; powers of M in the square."""


@study("convrfm.fig3c.transfer")
class EdgeTransfer(LearnedMetrics):
    """Does a metric that was learned on small photographs find edges in photographs it never saw?

    As appendix B has it: five rounds, maps of the whole M. Grey photographs of CIFAR-10 stand for SVHN.
    """

    grey: str = "cifar10"
    n: int = 400
    rounds: int = 5
    depth: int = 2
    photos: int = 64  # on which maps are compared with edges

    n_seeds = 3  # the metrics of two seeds differ by less than those of true and shuffled labels
    scales = {
        "smoke": dict(grey="photos", n=24, n_valid=16, rounds=1, agop_images=200, photos=8),
        "night": dict(n=2000, n_valid=500, agop_images=200, photos=500),
    }

    def run(self) -> Measured:
        """Learn with true and with shuffled labels, then compare maps with edges."""
        learned = self.metrics(common.grey(self.loaded(self.grey)), ConvKernel(depth=self.depth))
        photos = common.grey(load("photos", split="test", n=self.photos, seed=self.seed)).x
        edges = sobel_magnitude(photos)[:, 0, 1:-1, 1:-1].flatten(1).double()  # where 3 x 3 patches lie
        plain = torch.eye(len(learned[0]), dtype=torch.float64)
        names = ("true labels", "shuffled labels", "the identity")
        return {
            f"correlation with edges of {name}{reading}": common.map_correlation(
                common.feature_map(photos, torch.linalg.matrix_power(metric, power), 3), edges
            )
            for name, metric in zip(names, (*learned, plain), strict=True)
            for reading, power in READINGS.items()
        }


def leading_eigenvectors(metric: Tensor) -> Tensor:
    """Eight leading eigenvectors, as columns."""
    vectors: Tensor = torch.linalg.eigh(metric).eigenvectors
    return vectors.flip(1)[:, :8]


def _mean_response(metric: Tensor) -> Tensor:
    """Response of the leading eigenvectors to a constant patch of length one."""
    sums: Tensor = leading_eigenvectors(metric).sum(0).abs()
    return sums / math.sqrt(len(metric))


LOCAL_MACHINE = common.ConvRFM(agop_images=100)
METHODS = ("CNTK", "ConvRFM", "Deep ConvRFM", "network")


@study("lsa.fig5a.bars", "lsa.fig5b.mnist", "convrfm.fig6b.layers", "convrfm.monotone")
class LocalSignals(Study):
    """Does learning features in a kernel help where the signal is a small part of a noisy image?

    Round, ridge and number of layers are chosen by validation squared error. Medium and high noise of the bars are
    sigma >= 1. The null is the learned metric with random eigenvectors.
    """

    # Both tasks with their noise levels.
    sigmas: tuple[float, ...] = (1.0, 2.0, 4.0)  # noise of the bars
    n_bars: int = 300
    digits: str = "mnist"  # where digits come from
    digit_sigmas: tuple[float, ...] = (1.0,)
    n_digits: int = 300
    side: int = 36  # of the digits' frame
    n_valid: int = 150
    n_test: int = 600
    machine: common.ConvRFM = LOCAL_MACHINE
    network: common.PlainNetwork = common.DESK_NETWORK

    drawn = {
        "CNTK on bars": "null",
        "ConvRFM on bars": "trained",
        "Deep ConvRFM on bars": "other",
        "network on bars": "random labels",
    }
    axes, log_axes = ("noise level", "test accuracy"), "x"
    scales = {
        "smoke": dict(
            sigmas=(1.0, 2.0), n_bars=24, digits="photos", n_digits=24, n_valid=16, n_test=16,
            machine=common.ConvRFM(rounds=1, filters=4, agop_images=8), network=common.PlainNetwork(depth=2, epochs=1),
        ),
        "night": dict(
            sigmas=(0.5, 1.0, 2.0, 4.0), n_bars=500, n_digits=1000, digit_sigmas=(0.5, 1.0, 2.0), n_valid=500,
            n_test=2000, machine=common.ConvRFM(rounds=3, filters=16, agop_images=100),
        ),
    }  # fmt: skip

    def run(self) -> Measured:
        """Measure all noise levels side by side."""
        wanted = [("digits", s) for s in self.digit_sigmas] + [("bars", s) for s in self.sigmas]
        tasks = map_tasks(partial(_task, self), wanted, label="Noise levels")
        digits = tasks[: len(self.digit_sigmas)]
        return {
            "share of tasks in order": sum(task["is in order"] for task in tasks) / len(tasks),
            **_by_noise("digits", self.digit_sigmas, digits),
            **_by_noise("bars", self.sigmas, tasks[len(digits) :]),
        }


Accuracies = dict[str, float]
"""Test accuracies of the methods on one task at one noise level, and by the number of layers that learn features."""


def _by_noise(kind: str, sigmas: Sequence[float], tasks: Sequence[Accuracies]) -> Measured:
    """Gains and accuracies by noise level, and accuracies by layers as means over noise levels."""

    def column(what: str, less: str = "") -> list[float]:
        return [task[what] - (task[less] if less else 0.0) for task in tasks]

    def mean(values: Sequence[float]) -> float:
        return sum(values) / len(values)

    layers = [name for name in tasks[0] if name.startswith("layers ")]
    return {
        f"gain on {kind}": by(sigmas, column("ConvRFM", "CNTK")),
        f"gain on {kind} with rotated metric": by(sigmas, column("rotated", "CNTK")),
        f"gain of depth on {kind}": by(sigmas, column("Deep ConvRFM", "ConvRFM")),
        f"accuracy on {kind} by layers": by(range(len(layers)), [mean(column(name)) for name in layers]),
        f"accuracy on {kind} with rotated metric": mean(column("rotated")),
        **{f"{name} on {kind}": by(sigmas, column(name)) for name in METHODS},
    }


def _splits(cfg: LocalSignals, kind: str, sigma: float) -> common.Splits:
    if kind == "bars":
        sizes = {"train": cfg.n_bars, "valid": cfg.n_valid, "test": cfg.n_test}
        drawn = {s: bars_in_noise(n, sigma=sigma, seed=cfg.seed, split=s) for s, n in sizes.items()}
        return common.Splits(**drawn)
    seen, unseen = (common.grey(load(cfg.digits, split=split, seed=0)) for split in ("train", "test"))
    both = digits_in_noise(seen, cfg.n_digits + cfg.n_valid, sigma=sigma, seed=cfg.seed, side=cfg.side)
    test = digits_in_noise(unseen, min(cfg.n_test, len(unseen)), sigma=sigma, seed=cfg.seed, side=cfg.side)
    index = torch.arange(len(both))
    return common.Splits(
        train=both.take(index[: cfg.n_digits]), valid=both.take(index[cfg.n_digits :]), test=test
    )


def _task(cfg: LocalSignals, what: tuple[str, float]) -> Accuracies:
    """Measure one task; validation errors are in order if they fall as selection enforces it."""
    splits = _splits(cfg, *what)
    stages = common.stages_of(splits, cfg.machine, depth=cfg.network.depth, seed=cfg.seed)
    first, errors = stages[0], [stage.best.error for stage in stages]
    cntk = first.test_accuracy(first.rounds[0])
    scores = [stage.test_accuracy(stage.best) for stage in stages]
    network = common.plain_network(splits.train, cfg.network, seed=cfg.seed)[1]
    return {
        "CNTK": cntk,
        "ConvRFM": scores[0],
        "Deep ConvRFM": scores[errors.index(min(errors))],
        "rotated": first.test_accuracy(
            first.rotated(seed=cfg.seed)
        ),  # random eigenvectors in the best round's metric
        "network": accuracy(network, splits.test),
        **{f"layers {number}": score for number, score in enumerate((cntk, *scores))},
        "is in order": errors[0] <= first.rounds[0].error and min(errors) <= errors[0],
    }
