"""Convolutional random features: a ConvRFM whose cost is linear in the number of images."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight._internal.executor import report_fraction, single_torch_thread
from firstlight._internal.memory_layout import canonical
from firstlight._internal.progress import progress
from firstlight._internal.shapes import Images
from firstlight.kernels.rfm import (
    Round,
    Rounds,
    best_round,
    is_last,
    judged_round,
    random_filters,
    round_subset,
)
from firstlight.kernels.ridge import check_ridge
from firstlight.maths.patches import PatchGeometry, patch_moments

BATCH = 64  # images whose responses are held at a time
FEATURE_RIDGES = (1e-3, 1e-2, 3e-2, 1e-1, 3e-1, 1.0)
"""Ridges that are tried by default, relative to the number of images times the variance of a feature."""
STATISTICS = 400  # images that tell the covariance of patches and the mean response of filters
SMALLEST = 1e-3  # share of the largest eigenvalue below which directions of patches are not raised further
GRADIENT_IMAGES = 200  # images at which gradients are taken by default: M is a mean over their positions, too
THRESHOLD = 0.5  # of the root mean square of the responses


@dataclass(frozen=True, kw_only=True)
class RandomFeatures:
    r"""Thresholded responses of drawn filters, both signs, averaged over regions of the image.

    .. math:: \phi^\pm_{kr}(x) = \frac1{|r|} \sum_{p \in r} \max(0, \pm (w_k^\top x[p] - s_k) - t)

    With :math:`s = t = 0` and filters of covariance M the products of features, divided by the number of filters and
    channels, converge to the kernel ``ConvKernel(depth=1, kind="nngp")`` with metric M as the filters grow in number:
    with the readout "gap" for one region, and "flatten" for one region for every position (divided by their number).

    Parameters
    ----------
    filters : Tensor of shape (k, c, q, q)
        The drawn filters.
    shift : Tensor of shape (k,)
        What is subtracted from the responses of every filter.
    threshold : float
        t, in the unit of the responses.
    regions : int or None
        Regions along either side; None keeps every position.
    stride, padding : int
        Of the convolution.

    Examples
    --------
    >>> drawn = RandomFeatures(filters=torch.ones(1, 1, 2, 2), shift=torch.zeros(1), regions=1)
    >>> drawn(torch.ones(1, 1, 3, 3))
    tensor([[4., 0.]])
    """

    filters: Float[Tensor, "k c q q"]
    shift: Float[Tensor, " k"]
    threshold: float = 0.0
    regions: int | None = 2
    stride: int = 1
    padding: int = 0

    @property
    def words(self) -> str:
        """What was drawn, in words."""
        k, c, q, _ = self.filters.shape
        where = "every position" if self.regions is None else f"{self.regions} x {self.regions} regions"
        return f"{k} drawn filters of {c} x {q} x {q}, both signs, {where}"

    def __call__(self, images: Images) -> Float[Tensor, "n f"]:
        """Features of images, in the precision of the filters."""
        return self.pooled(self.responses(images))

    def responses(self, images: Images) -> Float[Tensor, "n k rows columns"]:
        """Responses of every filter at every position, less their shift."""
        return F.conv2d(
            images.to(self.filters.dtype), self.filters, -self.shift, stride=self.stride, padding=self.padding
        )

    def pooled(self, responses: Float[Tensor, "n k h w"]) -> Float[Tensor, "n f"]:
        """Features from responses."""
        signs = [F.relu(responses - self.threshold), F.relu(-responses - self.threshold)]
        if self.regions is not None:
            side = min(self.regions, *responses.shape[2:])
            signs = [F.adaptive_avg_pool2d(sign, side) for sign in signs]
        return torch.cat([sign.flatten(1) for sign in signs], 1)


def drawn_features(
    images: Images, metric: Float[Tensor, "d d"], *, n_filters: int, size: int, stride: int = 1, padding: int = 0,
    regions: int | None = 2, seed: int = 0,
) -> RandomFeatures:  # fmt: skip
    """Draw filters of covariance `metric`; their mean response and the threshold come from the images.

    Filters have the precision of the images.
    """
    shape = (images.shape[1], size, size)
    filters = canonical(random_filters(metric, n_filters, seed=seed, shape=shape).to(images.dtype))
    plain = RandomFeatures(
        filters=filters,
        shift=torch.zeros(n_filters, dtype=images.dtype),
        regions=regions,
        stride=stride,
        padding=padding,
    )
    seen = plain.responses(images)
    shift = canonical(seen.mean((0, 2, 3)))
    spread = float((seen - shift[:, None, None]).square().mean().sqrt())
    return RandomFeatures(
        filters=filters,
        shift=shift,
        threshold=THRESHOLD * spread,
        regions=regions,
        stride=stride,
        padding=padding,
    )


def feature_agop(
    features: RandomFeatures,
    coefficients: Float[Tensor, "f o"],
    images: Images,
    *,
    before: Callable[[Tensor], Tensor] = lambda maps: maps,
) -> Float[Tensor, "d d"]:
    r"""Average gradient outer product over patches of :math:`f_o(x) = \sum_j \beta_{jo} \phi_j(x)`.

    .. math:: \frac1n \sum_x \sum_p \sum_o \nabla_{x[p]} f_o \, \nabla_{x[p]} f_o^\top, \qquad
              \nabla_{x[p]} f_o = \sum_k \frac{\partial f_o}{\partial (w_k^\top x[p])}\, w_k

    Examples
    --------
    >>> drawn = RandomFeatures(filters=torch.ones(1, 1, 1, 1), shift=torch.zeros(1), regions=1)
    >>> feature_agop(drawn, torch.tensor([[3.0], [0.0]]), torch.ones(1, 1, 1, 1))
    tensor([[9.]], dtype=torch.float64)
    """
    weights, beta = features.filters.flatten(1), coefficients.to(features.filters.dtype)
    total = torch.zeros(weights.shape[1], weights.shape[1], dtype=torch.float64)
    for batch in torch.split(images, BATCH):
        with torch.enable_grad():
            responses = features.responses(before(batch)).detach().requires_grad_()
            outputs = (features.pooled(responses) @ beta).sum(0)
        for output in outputs:
            (slope,) = torch.autograd.grad(output, responses, retain_graph=True)
            # W^T g at every position; in float64, as float32 would leave negative eigenvalues
            gradients = (slope.permute(0, 2, 3, 1).flatten(0, 2) @ weights).double()
            total.addmm_(gradients.T, gradients)
    return total / len(images)


@dataclass(frozen=True)
class Moments:
    """Sums over images, from which ridge regressions on standardised features are solved."""

    n: int
    products: Float[Tensor, "f f"]
    sums: Float[Tensor, " f"]
    cross: Float[Tensor, "f o"]
    targets: Float[Tensor, " o"]

    @classmethod
    def of(cls, features: Float[Tensor, "n f"], targets: Float[Tensor, "n o"]) -> "Moments":
        """Sum in float64, block by block."""
        width = features.shape[1]
        products = torch.zeros(width, width, dtype=torch.float64)
        cross = torch.zeros(width, targets.shape[1], dtype=torch.float64)
        sums = torch.zeros(width, dtype=torch.float64)
        for rows, wanted in zip(
            torch.split(features, 1000), torch.split(targets.double(), 1000), strict=True
        ):
            exact = rows.double()
            products.addmm_(exact.T, exact)
            cross.addmm_(exact.T, wanted)
            sums += exact.sum(0)
        return cls(len(features), products, sums, cross, targets.double().sum(0))

    def __add__(self, other: "Moments") -> "Moments":
        return Moments(
            self.n + other.n, self.products + other.products, self.sums + other.sums, self.cross + other.cross,
            self.targets + other.targets,
        )  # fmt: skip

    def solved(self, ridges: Sequence[float]) -> Iterator["LinearReadout"]:
        """Ridge regression with an intercept, once for every ridge."""
        mean, middle = self.sums / self.n, self.targets / self.n
        covariance = self.products / self.n - torch.outer(mean, mean)
        spread = covariance.diagonal().clamp(min=0).sqrt()
        # a feature that never responds tells nothing; its coefficient is 0
        inverse = torch.where(spread > 1e-6 * spread.max(), 1 / spread, 0.0)
        matrix = covariance * inverse * inverse[:, None]
        right = inverse[:, None] * (self.cross / self.n - torch.outer(mean, middle))
        for ridge in ridges:
            shifted = matrix.clone()
            shifted.diagonal().add_(ridge)
            factor, failed = torch.linalg.cholesky_ex(shifted)
            if failed:
                continue
            beta = inverse[:, None] * torch.cholesky_solve(right, factor)
            # solvers return columns one after another, a saved machine comes back row by row
            yield LinearReadout(ridge, canonical(beta), canonical(middle - mean @ beta))


@dataclass(frozen=True)
class LinearReadout:
    """A ridge regression on features."""

    ridge: float
    coefficients: Float[Tensor, "f o"]
    intercept: Float[Tensor, " o"]

    def __call__(self, features: Float[Tensor, "n f"]) -> Float[Tensor, "n o"]:
        """Outputs, in float64."""
        parts = [rows.double() @ self.coefficients for rows in torch.split(features, 1000)]
        outputs: Tensor = torch.cat(parts) + self.intercept
        return outputs


@dataclass(frozen=True)
class FeatureMachine:
    """A ridge regression on drawn features, and the rounds that led to it."""

    rounds: Rounds
    features: RandomFeatures
    readout: LinearReadout

    def __call__(self, images: Images, before: Callable[[Tensor], Tensor] = lambda maps: maps) -> Tensor:
        """Outputs for images, of which `before` makes what the filters see."""
        outputs: Tensor = self.readout(_all_features(self.features, images, before, show=False))
        return outputs


def inverse_covariance(
    images: Images, geometry: PatchGeometry, *, before: Callable[[Tensor], Tensor] = lambda maps: maps
) -> Float[Tensor, "d d"]:
    """Inverse covariance of patches, kept from below by `SMALLEST` of the largest eigenvalue; Frobenius norm 1.

    Filters of this covariance respond to all directions of the patches alike.
    """
    maps = before(images[:: max(1, len(images) // STATISTICS)]).double()
    moments = patch_moments(maps, geometry)
    covariance = moments.covariance
    largest = float(torch.linalg.eigvalsh(covariance)[-1])
    if largest <= 0:
        raise InvalidInput("the patches of all images are the same; there is nothing to learn from.")
    inverse: Tensor = torch.linalg.inv(
        covariance + SMALLEST * largest * torch.eye(len(covariance), dtype=torch.float64)
    )
    metric: Tensor = (inverse + inverse.T) / (2 * inverse.norm())
    return metric


def learn_features(
    x: Images,
    y: Float[Tensor, "n o"],
    x_valid: Float[Tensor, "m c h w"],
    y_valid: Float[Tensor, "m o"],
    *,
    geometry: PatchGeometry,
    n_filters: int = 256,
    regions: int = 2,
    rounds: int = 5,
    ridges: Sequence[float] = FEATURE_RIDGES,
    agop_images: int | None = None,
    patience: int | None = 2,
    refit: bool = True,
    before: Callable[[Tensor], Tensor] = lambda maps: maps,
    start: Float[Tensor, "d d"] | None = None,
    seed: int = 0,
    listen: Callable[[Round], None] = lambda finished: None,
    show: bool | None = None,
) -> FeatureMachine:
    r"""Rounds of ridge regression on drawn features and :math:`M \leftarrow \mathrm{AGOP} / \|\mathrm{AGOP}\|_F`.

    Round 0 draws filters with the inverse covariance of the patches, which needs no labels. All rounds turn the same
    normal noise into filters, so that they differ by M alone.

    Parameters
    ----------
    x, y, x_valid, y_valid, rounds, patience, seed, listen
        As for :func:`firstlight.kernels.learn_metric`.
    geometry : PatchGeometry
        Of the filters.
    n_filters, regions : int
        Filters to draw, and regions along either side; 2 n_filters regions² features.
    ridges : sequence of float, default FEATURE_RIDGES
        Relative to the number of images, on standardised features.
    agop_images : int, optional
        Number of training images at which gradients are taken; 200 by default.
    refit : bool, default True
        Solve the chosen round again on all images.
    before : callable, optional
        Makes what the filters see of a batch of images.
    start : Tensor of shape (d, d), optional
        Metric of round 0, :func:`inverse_covariance` by default.
    """
    for ridge in ridges:
        check_ridge(ridge, positive=True)
    if rounds < 0 or not ridges or n_filters < 1 or regions < 1:
        raise InvalidInput(
            "`rounds` must be at least 0, `ridges` not empty, `filters` and `regions` at least 1; got "
            f"rounds={rounds}, ridges={tuple(ridges)}, filters={n_filters}, regions={regions}."
        )
    (size, _), (stride, _), (padding, _) = geometry.size, geometry.stride, geometry.padding
    metric = inverse_covariance(x, geometry, before=before) if start is None else start / start.norm()
    some = round_subset(len(x), agop_images or min(GRADIENT_IMAGES, len(x)), seed)
    done: list[Round] = []
    kept: tuple[RandomFeatures, LinearReadout] | None = None
    for number in range(rounds + 1):
        features = drawn_features(
            before(x[:: max(1, len(x) // STATISTICS)]), metric, n_filters=n_filters, size=size, stride=stride,
            padding=padding, regions=regions, seed=seed,
        )  # fmt: skip
        moments = Moments.of(_all_features(features, x, before, show), y)
        rows = _all_features(features, x_valid, before, show)
        tried = [(readout.ridge, readout(rows), readout) for readout in moments.solved(ridges)]
        finished, readout = judged_round(number, metric, tried, y_valid)
        done.append(finished)
        listen(finished)
        if best_round(done) == number:
            whole = moments + Moments.of(rows, y_valid) if refit else moments
            kept = features, next(whole.solved([finished.ridge]))
        if is_last(done, rounds, patience):
            break
        metric = feature_agop(features, readout.coefficients, x[some], before=before)
        size_of = float(metric.norm())
        if size_of == 0:
            break  # a constant predictor: there is nothing to learn from
        metric = metric / size_of
    assert kept is not None
    return FeatureMachine(Rounds(rounds=tuple(done), best=best_round(done)), *kept)


@torch.no_grad()
def _all_features(
    features: RandomFeatures, images: Images, before: Callable[[Tensor], Tensor], show: bool | None
) -> Float[Tensor, "n f"]:
    parts = []
    with single_torch_thread(), progress("Features", total=len(images), unit="images", show=show) as bar:
        for batch in torch.split(images, BATCH):
            parts.append(features(before(batch)))
            bar.advance(len(batch))
            report_fraction(len(parts) * BATCH / len(images))
    return torch.cat(parts)
