"""What the studies of learned kernels share: every round on every split, and maps of feature matrices."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.data.images import ImageData
from firstlight.kernels import RIDGES, Kernel, RidgePath, gram, kernel_agop, random_filters
from firstlight.maths import PatchGeometry, extract_patches, pearson


@dataclass(frozen=True, kw_only=True)
class Curves(Result):
    """Rounds of one ConvRFM; ridges are chosen by validation squared error within each round.

    Parameters
    ----------
    error, valid, test : Tensor of shape (rounds,)
        Validation squared error, validation and test accuracy, by round.
    peeked : Tensor of shape (rounds,)
        Highest test accuracy over ridges, by round: what choosing on the test set would report.
    metrics : Tensor of shape (rounds, d, d)
        M of every round.
    """

    error: Float[Tensor, " rounds"]
    valid: Float[Tensor, " rounds"]
    test: Float[Tensor, " rounds"]
    peeked: Float[Tensor, " rounds"]
    metrics: Float[Tensor, "rounds d d"]

    @property
    def best(self) -> int:
        """Round of lowest validation error."""
        return int(self.error.argmin())


def curves_of(
    train: ImageData,
    valid: ImageData,
    test: ImageData,
    *,
    kernel: Kernel,
    rounds: int,
    ridges: Sequence[float] = RIDGES,
    agop_images: int | None = None,
    seed: int = 0,
) -> Curves:
    """All rounds of a ConvRFM, each judged on validation and test images."""
    n_classes = train.n_classes
    y = F.one_hot(train.y, n_classes).double()
    d = kernel.geometry.dimension(train.shape[0])
    metric = torch.eye(d, dtype=torch.float64) / d**0.5
    others = torch.cat([valid.x, test.x])
    count = min(agop_images or len(train), len(train))
    some = torch.randperm(len(train), generator=generator_from("agop", seed))[:count]
    rows: list[tuple[float, ...]] = []
    metrics = []
    for number in range(rounds + 1):
        inner = gram(train.x, kernel=kernel, metric=metric, show=False)
        outer = gram(others, train.x, kernel=kernel, metric=metric, show=False)
        top = float(inner.max())
        path = RidgePath.of(inner / top, y)
        guesses = [outer @ path(ridge) / top for ridge in ridges]
        truth = F.one_hot(valid.y, n_classes).double()
        errors = [float((g[: len(valid)] - truth).square().sum(1).mean()) for g in guesses]
        scores = [_share(g[len(valid) :], test.y) for g in guesses]
        best = min(range(len(ridges)), key=lambda i: errors[i])
        rows.append((errors[best], _share(guesses[best][: len(valid)], valid.y), scores[best], max(scores)))
        metrics.append(metric)
        if number < rounds:
            alpha = path(ridges[best]) / top
            metric = kernel_agop(train.x, alpha, train.x[some], kernel=kernel, metric=metric, show=False)
            metric = metric / metric.norm()
    error, right, seen, peeked = torch.tensor(rows, dtype=torch.float64).T
    return Curves(error=error, valid=right, test=seen, peeked=peeked, metrics=torch.stack(metrics))


def _share(outputs: Tensor, labels: Tensor) -> float:
    return float((outputs.argmax(1) == labels).double().mean())


def next_layer(
    data: Sequence[ImageData], metric: Float[Tensor, "d d"], *, filters: int, size: int, seed: int
) -> list[ImageData]:
    """Features of random filters with covariance M, after a ReLU, for several splits."""
    channels = data[0].shape[0]
    weight = random_filters(metric, filters, seed=seed, shape=(channels, size, size)).float()
    return [d.map(lambda x: torch.relu(F.conv2d(x.float(), weight))) for d in data]


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


def three_parts(data: ImageData, n: int, n_valid: int, *, seed: int) -> tuple[ImageData, ImageData]:
    """Training and validation images, disjoint."""
    drawn = data.sample(min(n + n_valid, len(data)), seed=seed)
    index = torch.arange(len(drawn))
    return drawn.take(index[:n]), drawn.take(index[n:])
