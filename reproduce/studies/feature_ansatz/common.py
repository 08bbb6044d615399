"""What the studies of this theme share: small networks with their ansatz, and all rounds of learned kernels."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn

from firstlight._internal.result import Result
from firstlight._internal.seeds import generator_from
from firstlight._internal.store.runs import Store
from firstlight.data import ImageData, load
from firstlight.data.interventions import ChannelNormalisation
from firstlight.kernels import RIDGES, ConvKernel, Kernel, RidgePath, kernel_agop, kernel_gram, random_filters
from firstlight.maths import PatchGeometry, extract_patches, pearson
from firstlight.measures.feature_ansatz.ansatz import Ansatz, ansatz
from firstlight.models import ModelSpec
from firstlight.training import Recipe, Trained, accuracy, train_once

POOLINGS = ("max", "avg", "vec")

# ---------------------------------------------------------------- small networks


@dataclass(frozen=True, kw_only=True)
class NetworkPlan:
    """One network of the pooling study, trained from tiny weights."""

    data: str
    n: int  # training images
    pooling: str = "max"
    kernel: int = 3
    depth: int = 4
    channels: int = 16
    lr: float = 5e-3
    epochs: int = 8
    milestones: tuple[float, ...] = (0.5, 0.75)  # where the rate falls to 0.3 of it; the paper keeps it
    agop_images: int = 100
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class MeasuredNetwork(Result):
    """A trained network's agreement of filters and gradients, and its accuracy on unseen images."""

    ansatz: Ansatz
    test_accuracy: float

    def layers(self, pair: str, what: str = "pearson") -> Float[Tensor, " layers"]:
        """One number per convolution."""
        return self.ansatz.values(pair, what)


def trained_network(plan: NetworkPlan) -> tuple[ModelSpec, Trained, ImageData]:
    """Train the network of a plan, or fetch it from the store; the third part is unseen images.

    Images are normalised channel by channel, as in the paper: with tiny weights and no biases, raw pixels
    between 0 and 1 leave the networks on their first plateau for most of a short training.
    """
    train = load(plan.data, split="train", n=plan.n, seed=plan.seed)
    normalisation = ChannelNormalisation.fit(train)
    test = normalisation.transform(load(plan.data, split="test", seed=plan.seed))
    spec = ModelSpec(
        name=f"pooling_{plan.pooling}",
        classes=train.n_classes,
        shape=train.shape,
        initialiser="pooling_study",
        options={"depth": plan.depth, "channels": plan.channels, "kernel": plan.kernel},
    )
    recipe = Recipe(
        optimiser="adam",
        lr=plan.lr,
        epochs=plan.epochs,
        milestones=plan.milestones,
        gamma=0.3,
        seed=plan.seed,
    )
    trained = train_once(spec, normalisation.transform(train), recipe, store=Store(), show=False)
    return spec, trained, test


def measured_network(plan: NetworkPlan) -> MeasuredNetwork:
    """Train, and compare filters and gradients on unseen images, before and after."""
    spec, trained, test = trained_network(plan)
    model = trained.into(spec(plan.seed))
    images = test.sample(min(plan.agop_images, len(test)), seed=plan.seed)
    agreement = ansatz(
        model, images, initial=spec(plan.seed), layers="convolutions", seed=plan.seed, show=False
    )
    return MeasuredNetwork(ansatz=agreement, test_accuracy=accuracy(model, test))


# ---------------------------------------------------------------- learned kernels


@dataclass(frozen=True, kw_only=True)
class Splits(Result):
    """Disjoint images: to fit, to choose ridge and round, and to report."""

    train: ImageData
    valid: ImageData
    test: ImageData

    def features(self, metric: Float[Tensor, "d d"], *, filters: int, seed: int) -> "Splits":
        """Features of random 3 x 3 filters with covariance M, after a ReLU, for all splits."""
        shape = (self.train.shape[0], 3, 3)
        weight = random_filters(metric, filters, seed=seed, shape=shape).float()

        def layer(data: ImageData) -> ImageData:
            return data.map(lambda x: torch.relu(F.conv2d(x.float(), weight)))

        return Splits(train=layer(self.train), valid=layer(self.valid), test=layer(self.test))


@dataclass(frozen=True, kw_only=True)
class FittedRound(Result):
    """One round of a ConvRFM: its metric, coefficients and ridge, and its validation squared error."""

    metric: Float[Tensor, "d d"]
    alpha: Float[Tensor, "n k"]
    error: float


@dataclass(frozen=True, kw_only=True)
class ConvRFM:
    """How metrics are learned."""

    rounds: int = 2  # updates of M
    agop_images: int = 50  # gradients at so many training images
    layers: int = 2  # kernels, each but the first above one more layer of random features
    filters: int = 8  # of such a layer


@dataclass(frozen=True, kw_only=True)
class Stage(Result):
    """All rounds of a kernel on pixels, or on the features that the stage below has learned."""

    splits: Splits
    kernel: Kernel
    rounds: tuple[FittedRound, ...]

    @property
    def best(self) -> FittedRound:
        """The round of lowest validation error."""
        return min(self.rounds, key=lambda one: one.error)

    def test_accuracy(self, one: FittedRound) -> float:
        """Share of the test images that a round classifies correctly."""
        train, test = self.splits.train, self.splits.test
        outputs = kernel_gram(test.x, train.x, kernel=self.kernel, metric=one.metric, show=False) @ one.alpha
        return float((outputs.argmax(1) == test.y).double().mean())

    def rotated(self, *, seed: int) -> FittedRound:
        """The best round with random eigenvectors in M: the null of what was learned."""
        metric = rotated_metric(self.best.metric, seed=seed)
        return fitted_round(self.splits, self.kernel, metric)


def stages_of(splits: Splits, plan: ConvRFM, *, depth: int, seed: int) -> list[Stage]:
    """Deep ConvRFM: each stage one convolution shallower, on features of the best metric below it."""
    stages: list[Stage] = []
    for layer in range(plan.layers):
        if stages:
            splits = splits.features(stages[-1].best.metric, filters=plan.filters, seed=seed)
        kernel = ConvKernel(depth=depth - layer)
        rounds = [fitted_round(splits, kernel, plain_metric(splits, kernel))]
        for _ in range(plan.rounds):
            metric = updated_metric(splits, kernel, rounds[-1], agop_images=plan.agop_images, seed=seed)
            rounds.append(fitted_round(splits, kernel, metric))
        stages.append(Stage(splits=splits, kernel=kernel, rounds=tuple(rounds)))
    return stages


def fitted_round(splits: Splits, kernel: Kernel, metric: Float[Tensor, "d d"]) -> FittedRound:
    """Kernel ridge regression with one metric; the ridge of lowest validation squared error is kept."""
    train, valid = splits.train, splits.valid
    inner = kernel_gram(train.x, kernel=kernel, metric=metric, show=False)
    outer = kernel_gram(valid.x, train.x, kernel=kernel, metric=metric, show=False)
    top = float(inner.max())
    path = RidgePath.of(inner / top, F.one_hot(train.y, train.n_classes).double())
    truth = F.one_hot(valid.y, train.n_classes).double()
    alphas = [path(ridge) / top for ridge in RIDGES]
    errors = [float((outer @ alpha - truth).square().sum(1).mean()) for alpha in alphas]
    best = min(range(len(RIDGES)), key=errors.__getitem__)
    return FittedRound(metric=metric, alpha=alphas[best], error=errors[best])


def plain_metric(splits: Splits, kernel: Kernel) -> Float[Tensor, "d d"]:
    """The identity, of Frobenius norm 1."""
    d = kernel.geometry.dimension(splits.train.shape[0])
    metric: Tensor = torch.eye(d, dtype=torch.float64) / d**0.5
    return metric


def updated_metric(
    splits: Splits, kernel: Kernel, one: FittedRound, *, agop_images: int, seed: int
) -> Float[Tensor, "d d"]:
    """M of the next round, of Frobenius norm 1."""
    x = splits.train.x
    some = torch.randperm(len(x), generator=generator_from("agop", seed))[: min(agop_images, len(x))]
    metric = kernel_agop(x, one.alpha, x[some], kernel=kernel, metric=one.metric, show=False)
    normalised: Tensor = metric / metric.norm()
    return normalised


def learned_metric(
    parts: tuple[ImageData, ImageData], kernel: Kernel, *, rounds: int, agop_images: int, seed: int
) -> Float[Tensor, "d d"]:
    """The metric after some rounds of a ConvRFM on training images; the others choose the ridge."""
    splits = Splits(train=parts[0], valid=parts[1], test=parts[1])
    metric = plain_metric(splits, kernel)
    for _ in range(rounds):
        fit = fitted_round(splits, kernel, metric)
        metric = updated_metric(splits, kernel, fit, agop_images=agop_images, seed=seed)
    return metric


def rotated_metric(metric: Float[Tensor, "d d"], *, seed: int) -> Float[Tensor, "d d"]:
    """M with its eigenvalues kept and its eigenvectors drawn at random."""
    noise = torch.randn(metric.shape, generator=generator_from("rotated metric", seed), dtype=torch.float64)
    rotation = torch.linalg.qr(noise).Q
    rotated: Tensor = rotation @ metric @ rotation.T
    return rotated


def two_parts(data: ImageData, n: int, n_valid: int, *, seed: int) -> tuple[ImageData, ImageData]:
    """Training and validation images, disjoint."""
    drawn = data.sample(min(n + n_valid, len(data)), seed=seed)
    index = torch.arange(len(drawn))
    return drawn.take(index[:n]), drawn.take(index[n:])


def grey(data: ImageData) -> ImageData:
    """Mean over the channels."""
    return data.map(lambda x: x.mean(1, keepdim=True))


@dataclass(frozen=True, kw_only=True)
class PlainNetwork:
    """The unpadded network that matches the kernels, trained by Adam; 64 channels and 1e-4 in the paper."""

    depth: int = 3
    channels: int = 16
    lr: float = 2e-3
    epochs: int = 30


DESK_NETWORK = PlainNetwork()


def plain_network(train: ImageData, plan: PlainNetwork, *, seed: int) -> tuple[nn.Module, nn.Module]:
    """Return the initial and the trained network."""
    options = {"depth": plan.depth, "channels": plan.channels}
    spec = ModelSpec(name="cnfa_cnn", classes=train.n_classes, shape=train.shape, options=options)
    recipe = Recipe(optimiser="adam", lr=plan.lr, batch_size=32, epochs=plan.epochs, seed=seed)
    trained = train_once(spec, train, recipe, store=Store(), show=False)
    return spec(seed), trained.into(spec(seed))


# ---------------------------------------------------------------- maps of feature matrices


def feature_map(
    images: Float[Tensor, "n c h w"], metric: Float[Tensor, "d d"], size: int
) -> Float[Tensor, "n p"]:
    r""":math:`\sqrt{h[p]^\top M\,h[p]}` at every position: where a feature matrix looks."""
    patches = extract_patches(images.double(), PatchGeometry.square(size))
    squares = torch.einsum("npd,de,npe->np", patches, metric.double(), patches)
    return squares.clamp(min=0).sqrt()


def map_correlation(first: Float[Tensor, "n p"], second: Float[Tensor, "n p"]) -> float:
    """Mean over images of the Pearson correlation of two maps; constant maps count as unrelated."""
    usable = (first.std(1) > 0) & (second.std(1) > 0)
    if not usable.any():
        return 0.0
    return float(pearson(first[usable], second[usable]).mean())
