"""Identities of deep linear networks, checked to numerical or Monte-Carlo precision."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.theory import deep_linear as dl

RATES = (1e-3, 1e-4, 1e-5)
DIMS = (7, 11, 13, 12, 3)
SMALL = (5, 6, 7, 4, 3)
CHUNK = 250  # networks drawn at a time


@dataclass(frozen=True, kw_only=True)
class Identities(Result):
    """Deviations from each identity."""

    remainders: Float[Tensor, " rates"]  # remainder over the squared rate
    gradient: float  # against finite differences, relative
    closed_form: float  # one layer, 50 steps
    closed_form_printed: float  # with the paper's shifted index
    scales: float  # Monte-Carlo means of A and B against expectations
    product: float  # variance of the product against its expectation
    unit_equal: float  # definition 3 at equal widths
    unit_uneven: float  # at widths 100, 104, 98
    drift_left: Float[Tensor, " layers"]  # measured over predicted drift of A
    drift_right: Float[Tensor, " layers"]  # of B
    drift_printed: float  # largest error of the paper's own coefficient 2l for B, relative


def _problem(q: int, k: int, n: int, seed: int) -> tuple[Tensor, Tensor]:
    generator = generator_from("deep linear", seed)
    x = torch.randn(n, q, generator=generator, dtype=torch.float64)
    return x, torch.randn(n, k, generator=generator, dtype=torch.float64)


def _remainders(seed: int) -> Tensor:
    x, y = _problem(DIMS[0], DIMS[-1], 20, seed)
    sxx, syx = x.T @ x, y.T @ x
    generator = generator_from("layers", seed)
    layers = dl.drawn_layers(DIMS, dl.definition3_variances(DIMS), generator=generator)
    found = []
    for rate in RATES:
        after = dl.compact(dl.stepped(layers, sxx, syx, rate=rate))
        first = dl.compact(layers) + dl.first_order_change(layers, sxx, syx, rate=rate)
        found.append((after - first).norm() / rate**2)
    return torch.stack(found)


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
    start = torch.randn(3, 7, generator=generator_from("start", seed), dtype=torch.float64)
    weights = start @ moments.basis.T
    for _ in range(50):
        weights = weights - rate * (weights @ (x.T @ x) - y.T @ x)
    found = moments.rotated(weights)
    errors = [
        float((found - dl.columns_at(start, moments, rate=rate, steps=s)).abs().max()) for s in (50, 51)
    ]
    return errors[0], errors[1]


def _means(draws: int, seed: int) -> tuple[float, float]:
    variances = [0.3, 0.2, 0.5, 0.4]
    layers = dl.drawn_layers(SMALL, variances, generator=generator_from("means", seed), draws=(draws,))
    expected, scales = dl.expected_scales(SMALL, variances), dl.scale_matrices(layers)
    pairs = [*zip(scales.left, expected.left, strict=True), *zip(scales.right, expected.right, strict=True)]
    worst = max(abs(float(m.mean(0).diagonal().mean()) / value - 1) for m, value in pairs)
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
        before, after = dl.scale_matrices(layers), dl.scale_matrices(dl.stepped(layers, sxx, syx, rate=rate))
        for i in range(depth):
            left[i] += (before.left[i] - after.left[i]).diagonal(dim1=-2, dim2=-1).sum() / draws
            right[i] += (before.right[i] - after.right[i]).diagonal(dim1=-2, dim2=-1).sum() / draws
    a = torch.stack([left[i] / expected.left[i].trace() for i in range(depth - 1)])
    b = torch.stack([right[i] / expected.right[i].trace() for i in range(1, depth)])
    level = torch.arange(2, depth + 1).double()
    printed = (right[1:] / (rate * 2 * level * k / width * q) - 1).abs().max()  # 2 mu l K/m I
    return a, b, float(printed)


@study(
    "deeplin.thm1",
    "deeplin.gradient",
    "deeplin.L1.closed_form",
    "deeplin.thm3",
    "deeplin.lemma2",
    "deeplin.def3.unit_scale",
    "deeplin.thm6.drift",
)
class DeepLinearExact:
    """Do the identities of deep linear networks hold as corrected?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Sizes of the Monte-Carlo checks."""

        draws: int = 4000  # networks for the means of A and B
        drift_draws: int = 3000  # networks for the drift in the first step
        width: int = 120  # of their hidden layers
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(),
        "desk": Config(),
        "paper": Config(draws=100_000, drift_draws=30_000),
    }

    @staticmethod
    def run(cfg: Config) -> Identities:
        """Check every identity once."""
        closed, printed = _closed_form_errors(cfg.seed)
        scales, product = _means(cfg.draws, cfg.seed)
        left, right, drift_printed = _drift(cfg.width, cfg.drift_draws, cfg.seed)
        return Identities(
            remainders=_remainders(cfg.seed),
            gradient=_gradient_error(cfg.seed),
            closed_form=closed,
            closed_form_printed=printed,
            scales=scales,
            product=product,
            unit_equal=_unit_deviation((5, 100, 100, 100, 3)),
            unit_uneven=_unit_deviation((5, 100, 104, 98, 3)),
            drift_left=left,
            drift_right=right,
            drift_printed=drift_printed,
        )

    @staticmethod
    def figure(result: Identities) -> Figure:
        """Measured over predicted drift, layer by layer."""
        return curves(
            [
                Curve(name="A, layers 1 to L-1", values=result.drift_left[None]),
                Curve(name="B, layers 2 to L", values=result.drift_right[None], role="random labels"),
                Curve(name="theory", values=torch.ones_like(result.drift_left)[None], role="theory"),
            ],
            title="Drift of the scale matrices in the first step",
            alt="Measured over predicted drift of A and B by layer, all close to one",
            x="layer",
            y="measured / predicted",
        )

    rules: ClassVar = {
        "deeplin.thm1": Rule(
            measured=lambda r: {f"rate {m:g}": float(v) for m, v in zip(RATES, r.remainders, strict=True)},
            reproduced=lambda r: bool(((r.remainders / r.remainders[-1] - 1).abs() < 0.02).all()),
        ),
        "deeplin.gradient": Rule(
            measured=lambda r: {"relative error": r.gradient}, reproduced=lambda r: r.gradient < 1e-6
        ),
        "deeplin.L1.closed_form": Rule(
            measured=lambda r: {"error": r.closed_form},
            reproduced=lambda r: r.closed_form < 1e-12,
            null=lambda r: {"with the printed index": r.closed_form_printed},
        ),
        "deeplin.thm3": Rule(
            measured=lambda r: {"deviation": r.scales}, reproduced=lambda r: r.scales < 0.03
        ),
        "deeplin.lemma2": Rule(
            measured=lambda r: {"deviation": r.product}, reproduced=lambda r: r.product < 0.03
        ),
        "deeplin.def3.unit_scale": Rule(
            measured=lambda r: {"equal widths": r.unit_equal, "widths 100, 104, 98": r.unit_uneven},
            reproduced=lambda r: r.unit_equal < 1e-12 and r.unit_uneven < 0.05,
        ),
        "deeplin.thm6.drift": Rule(
            measured=lambda r: {
                "A, worst": float((r.drift_left - 1).abs().max()),
                "B, worst": float((r.drift_right - 1).abs().max()),
            },
            reproduced=lambda r: bool(((torch.cat([r.drift_left, r.drift_right]) - 1).abs() < 0.1).all()),
            null=lambda r: {"B with the printed constant": r.drift_printed},
        ),
    }
