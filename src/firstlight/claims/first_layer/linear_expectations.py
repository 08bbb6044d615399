"""Study of expectations: over initial filters, and over random labels."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.theory import first_layer as theory
from firstlight.theory import least_squares as ls


@dataclass(frozen=True, kw_only=True)
class ExpectationResult(Result):
    """Relative deviations of Monte-Carlo means from the formulas."""

    finite_width: float
    infinite_width: float
    equal_means: float
    direction: float
    bernoulli: float
    signs: float
    shuffled: float
    sampled: Float[Tensor, " d"]
    predicted: Float[Tensor, " d"]


@study(
    "linear.thmA3.finiteM",
    "linear.thmA4.expectation",
    "linear.thmA5.direction",
    "linear.random_label_variance",
    "linear.shuffled_label_variance",
)
class LinearExpectations:
    """Do the expected profiles over initial filters and over random labels follow the formulas?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        init_draws: int = 40_000
        label_draws: int = 200_000
        permutations: int = 60_000
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> ExpectationResult:
        """Draw, average, compare."""
        generator = generator_from("expectations", cfg.seed)
        finite, infinite = _width_errors(cfg.init_draws, generator)
        k = torch.randn(40, 9, generator=generator, dtype=torch.float64) + 0.5
        spectral = ls.spectrum(k)
        rate, steps = 0.5 / spectral.largest, 30

        coin = torch.bernoulli(torch.full((40, cfg.label_draws), 0.5), generator=generator).double()
        errors, sampled, predicted = {}, None, None
        for coding, labels in (
            (theory.LabelCoding.BERNOULLI, coin),
            (theory.LabelCoding.SIGNS, 2 * coin - 1),
        ):
            squares = ls.weights(spectral, labels, rate=rate, steps=steps).square().mean(1)
            moments = theory.random_label_moments(spectral, rate=rate, steps=steps, coding=coding)
            errors[coding] = float((squares / moments.squared_profile - 1).abs().max())
            sampled, predicted = squares, moments.squared_profile

        small = k[:30, :6]
        spectral_small = ls.spectrum(small)
        rate = 0.5 / spectral_small.largest
        order = torch.rand(30, cfg.permutations, generator=generator).argsort(0)
        weights = ls.weights(spectral_small, (order < 15).double(), rate=rate, steps=steps)
        moments = theory.random_label_moments(
            spectral_small, rate=rate, steps=steps, coding=theory.LabelCoding.SHUFFLED
        )
        shuffled = float((torch.cov(weights) - moments.covariance).norm() / moments.covariance.norm())
        assert sampled is not None and predicted is not None  # noqa: PT018
        return ExpectationResult(
            finite_width=finite,
            infinite_width=infinite,
            equal_means=_equal_means_error(generator),
            direction=_direction_error(generator),
            bernoulli=errors[theory.LabelCoding.BERNOULLI],
            signs=errors[theory.LabelCoding.SIGNS],
            shuffled=shuffled,
            sampled=sampled,
            predicted=predicted,
        )

    @staticmethod
    def figure(result: ExpectationResult) -> Figure:
        """Show the profile under random signs, drawn and predicted."""
        return curves(
            [
                Curve(name="mean over random labels", values=result.sampled[None], role="random labels"),
                Curve(name="formula", values=result.predicted[None], role="theory"),
            ],
            title="Expected squared weights under random labels",
            alt="Two curves that coincide",
            x="coordinate",
            y="squared weight",
        )

    rules = {
        "linear.thmA3.finiteM": Rule(
            measured=lambda r: {"relative deviation": r.finite_width},
            reproduced=lambda r: r.finite_width < 0.02,
            null=lambda r: {"paper's infinite width": r.infinite_width},
        ),
        "linear.thmA4.expectation": Rule(
            measured=lambda r: {"largest deviation": r.equal_means},
            reproduced=lambda r: r.equal_means < 1e-10,
        ),
        "linear.thmA5.direction": Rule(
            measured=lambda r: {"relative error": r.direction}, reproduced=lambda r: r.direction < 1e-10
        ),
        "linear.random_label_variance": Rule(
            measured=lambda r: {"0/1 labels": r.bernoulli, "signs": r.signs},
            reproduced=lambda r: max(r.bernoulli, r.signs) < 0.02,
        ),
        "linear.shuffled_label_variance": Rule(
            measured=lambda r: {"relative error": r.shuffled}, reproduced=lambda r: r.shuffled < 0.02
        ),
    }


def _width_errors(draws: int, generator: torch.Generator) -> tuple[float, float]:
    """Deviation from the formula at 5 filters, and from the paper's limit of infinitely many."""
    m, d, sigma, steps = 5, 6, 0.3, 8
    k = torch.randn(12, d, generator=generator, dtype=torch.float64) + 0.5
    y = (torch.arange(12) % 2).double()
    spectral = ls.spectrum(k)
    rate = 0.7 / spectral.largest
    initial = sigma * torch.randn(draws, m, d, generator=generator, dtype=torch.float64)
    start = initial.mean(1)
    kept = spectral.apply(ls.decay(spectral.values, rate=rate, steps=steps), start.mT).mT
    reached = ls.weights(spectral, y, rate=rate, steps=steps)
    profile = (initial + (reached + kept - start)[:, None]).square().mean((0, 1))
    expected = theory.expected_squared_profile(spectral, y, rate=rate, steps=steps, sigma=sigma, width=m)
    limit = reached.square() + sigma**2
    return float((profile / expected - 1).abs().max()), float((profile / limit - 1).abs().max())


def _equal_means_error(generator: torch.Generator) -> float:
    k = torch.randn(40, 9, generator=generator, dtype=torch.float64) + 0.5
    k[:20] += k[20:].mean(0) - k[:20].mean(0)
    y = (torch.arange(40) < 20).double()
    spectral = ls.spectrum(k)
    rate = 0.9 / spectral.largest
    found = [float((k.mT @ y - 0.5 * k.sum(0)).abs().max())]
    for steps in (1, 10, 1000):
        true = ls.weights(spectral, y, rate=rate, steps=steps)
        random = theory.random_label_moments(spectral, rate=rate, steps=steps).mean
        found.append(float((true - random).abs().max()))
    return max(found)


def _direction_error(generator: torch.Generator) -> float:
    root = torch.randn(6, 6, generator=generator, dtype=torch.float64)
    sigma = root @ root.mT + torch.eye(6)
    mu = torch.randn(6, generator=generator, dtype=torch.float64)
    inverse = torch.linalg.inv(sigma)
    # the printed expression: inverse by Woodbury, applied to mu, term by term
    size = mu @ inverse @ mu
    printed = inverse @ mu - inverse @ torch.outer(mu, mu) @ inverse @ mu / (1 + size)
    short = theory.random_label_direction(sigma, mu)
    direct = torch.linalg.solve(sigma + torch.outer(mu, mu), mu)
    return max(float((v - direct).norm() / direct.norm()) for v in (printed, short))
