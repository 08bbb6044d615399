"""Identities of deep linear networks, checked to numerical or Monte-Carlo precision."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.theory import deep_linear as dl
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by

RATES = (1e-3, 1e-4, 1e-5)
DIMS = (7, 11, 13, 12, 3)
SMALL = (5, 6, 7, 4, 3)
CHUNK = 250  # networks drawn at a time


@study(
    "deeplin.thm1",
    "deeplin.gradient",
    "deeplin.L1.closed_form",
    "deeplin.thm3",
    "deeplin.lemma2",
    "deeplin.def3.unit_scale",
    "deeplin.thm6.drift",
)
class DeepLinearExact(Study):
    """Do the identities of deep linear networks hold as corrected?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Sizes of the Monte-Carlo checks."""

        draws: int = 4000  # networks for the means of A and B
        drift_draws: int = 3000  # networks for the drift in the first step
        width: int = 120  # of their hidden layers
        seed: int = 0

    scales = {
        "smoke": Config(),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Check every identity."""
        closed, printed = _closed_form_errors(cfg.seed)
        scales, product = _means(cfg.draws, cfg.seed)
        left, right, drift_printed = _drift(cfg.width, cfg.drift_draws, cfg.seed)
        return {
            "scaled remainder": by(RATES, _remainders(cfg.seed)),
            "gradient error": _gradient_error(cfg.seed),
            "closed-form error": closed,
            "closed-form error as printed": printed,
            "deviation of the mean A and B": scales,
            "deviation of the product's variance": product,
            "deviation from 1 with equal widths": _unit_deviation((5, 100, 100, 100, 3)),
            "deviation from 1 with widths 100-104-98": _unit_deviation((5, 100, 104, 98, 3)),
            "relative drift of A": by(range(1, len(left) + 1), left),
            "relative drift of B": by(range(2, len(right) + 2), right),
            "drift error": float((right - 1).abs().max()),
            "drift error as printed": drift_printed,
        }


def _problem(q: int, k: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = generator_from("deep linear", seed)
    x = torch.randn(n, q, generator=generator, dtype=torch.float64)
    return x, torch.randn(n, k, generator=generator, dtype=torch.float64)


def _remainders(seed: int) -> Tensor:
    x, y = _problem(DIMS[0], DIMS[-1], 20, seed)
    sxx, syx = x.T @ x, y.T @ x
    generator = generator_from("layers", seed)
    layers = dl.drawn_layers(DIMS, dl.definition3_variances(DIMS), generator=generator)
    remainders = []
    for rate in RATES:
        after = dl.compact(dl.gradient_step(layers, sxx, syx, rate=rate))
        first = dl.compact(layers) + dl.first_order_change(layers, sxx, syx, rate=rate)
        remainders.append((after - first).norm() / rate**2)
    return torch.stack(remainders)


def _gradient_error(seed: int) -> float:
    x, y = _problem(DIMS[0], DIMS[-1], 20, seed)
    generator = generator_from("layers", seed)
    layers = dl.drawn_layers(DIMS, dl.definition3_variances(DIMS), generator=generator)
    slopes = dl.layer_gradients(layers, x.T @ x, y.T @ x)
    step, worst = 1e-5, 0.0

    def loss(index: int, change: Tensor) -> float:
        moved = [w + change if i == index else w for i, w in enumerate(layers)]
        return 0.5 * float((x @ dl.compact(moved).T - y).square().sum())

    for index, slope in enumerate(slopes):
        direction = torch.randn(slope.shape, generator=generator, dtype=torch.float64)
        numeric = (loss(index, step * direction) - loss(index, -step * direction)) / (2 * step)
        worst = max(worst, abs(numeric / float((slope * direction).sum()) - 1))
    return worst


def _closed_form_errors(seed: int) -> tuple[float, float]:
    x, y = _problem(7, 3, 20, seed)
    moments = dl.principal_moments(x, y)
    rate = 0.5 / float(moments.values[0])
    initial = torch.randn(3, 7, generator=generator_from("start", seed), dtype=torch.float64)
    weights = initial @ moments.basis.T
    for _ in range(50):
        weights = weights - rate * (weights @ (x.T @ x) - y.T @ x)
    columns = moments.rotated(weights)
    errors = [
        float((columns - dl.columns_at(initial, moments, rate=rate, steps=s)).abs().max()) for s in (50, 51)
    ]
    return errors[0], errors[1]


def _means(draws: int, seed: int) -> tuple[float, float]:
    variances = [0.3, 0.2, 0.5, 0.4]
    layers = dl.drawn_layers(SMALL, variances, generator=generator_from("means", seed), draws=(draws,))
    expected, scales = dl.expected_scales(SMALL, variances), dl.scale_matrices(layers)
    pairs = [*zip(scales.left, expected.left, strict=True), *zip(scales.right, expected.right, strict=True)]
    worst = max(abs(float(m.mean(0).diagonal().mean()) / scale - 1) for m, scale in pairs)
    return worst, abs(float(dl.compact(layers).square().mean()) / expected.product_variance - 1)


def _unit_deviation(widths: tuple[int, ...]) -> float:
    variances = dl.definition3_variances(widths)
    outputs = [widths[i + 1] * variances[i] for i in range(len(variances) - 1)]
    inputs = [widths[i] * variances[i] for i in range(1, len(variances))]
    return max(abs(v - 1) for v in outputs + inputs)


def _drift(width: int, draws: int, seed: int) -> tuple[Tensor, Tensor, float]:
    q, k, depth, rate = 3, 2, 5, 1e-5
    x, y = _problem(q, k, 30, seed)
    sxx, syx = x.T @ x, y.T @ x
    widths = (q, *[width] * (depth - 1), k)
    expected = dl.expected_drift(widths, sxx, rate=rate)
    generator = generator_from("drift", seed)
    left, right = torch.zeros(depth).double(), torch.zeros(depth).double()
    for start in range(0, draws, CHUNK):
        count = min(CHUNK, draws - start)
        variances = dl.definition3_variances(widths)
        layers = dl.drawn_layers(widths, variances, generator=generator, draws=(count,))
        before, after = (
            dl.scale_matrices(layers),
            dl.scale_matrices(dl.gradient_step(layers, sxx, syx, rate=rate)),
        )
        for i in range(depth):
            left[i] += (before.left[i] - after.left[i]).diagonal(dim1=-2, dim2=-1).sum() / draws
            right[i] += (before.right[i] - after.right[i]).diagonal(dim1=-2, dim2=-1).sum() / draws
    a = torch.stack([left[i] / expected.left[i].trace() for i in range(depth - 1)])
    b = torch.stack([right[i] / expected.right[i].trace() for i in range(1, depth)])
    level = torch.arange(2, depth + 1).double()
    printed = (right[1:] / (rate * 2 * level * k / width * q) - 1).abs().max()  # 2 mu l K/m I
    return a, b, float(printed)
