"""Study of expectations: over initial filters, and over random labels."""

from dataclasses import dataclass

import torch

from firstlight._internal.seeds import generator_from
from firstlight.theory import least_squares as ls
from firstlight.theory import linear_cnn as theory
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured


@study(
    "linear.thmA3.finiteM",
    "linear.thmA4.expectation",
    "linear.thmA5.direction",
    "linear.random_label_variance",
    "linear.shuffled_label_variance",
)
class LinearExpectations(Study):
    """Do the expected profiles over initial filters and over random labels follow the formulas?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Draws enough for errors of a few per mille."""

        initial_draws: int = 40_000
        label_draws: int = 200_000
        permutations: int = 60_000
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Draw, average, compare."""
        generator = generator_from("expectations", cfg.seed)
        finite, infinite = _width_errors(cfg.initial_draws, generator)
        k = torch.randn(40, 9, generator=generator, dtype=torch.float64) + 0.5
        spectral = ls.spectrum(k)
        rate, steps = 0.5 / spectral.largest, 30

        coin = torch.bernoulli(torch.full((40, cfg.label_draws), 0.5), generator=generator).double()
        errors = {}
        for coding, labels in (
            (theory.LabelCoding.BERNOULLI, coin),
            (theory.LabelCoding.SIGNS, 2 * coin - 1),
        ):
            squares = ls.weights(spectral, labels, rate=rate, steps=steps).square().mean(1)
            moments = theory.random_label_moments(spectral, rate=rate, steps=steps, coding=coding)
            errors[coding] = float((squares / moments.squared_profile - 1).abs().max())

        small = k[:30, :6]
        spectral_small = ls.spectrum(small)
        rate = 0.5 / spectral_small.largest
        order = torch.rand(30, cfg.permutations, generator=generator).argsort(0)
        weights = ls.weights(spectral_small, (order < 15).double(), rate=rate, steps=steps)
        moments = theory.random_label_moments(
            spectral_small, rate=rate, steps=steps, coding=theory.LabelCoding.SHUFFLED
        )
        shuffled = float((torch.cov(weights) - moments.covariance).norm() / moments.covariance.norm())
        return {
            "error at finite width": finite,
            "error of the infinite width": infinite,
            "error with equal means": _equal_means_error(generator),
            "error of the direction": _direction_error(generator),
            "error with 0/1 labels": errors[theory.LabelCoding.BERNOULLI],
            "error with signs": errors[theory.LabelCoding.SIGNS],
            "error with shuffled labels": shuffled,
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
    errors = [float((k.mT @ y - 0.5 * k.sum(0)).abs().max())]
    for steps in (1, 10, 1000):
        true = ls.weights(spectral, y, rate=rate, steps=steps)
        random = theory.random_label_moments(spectral, rate=rate, steps=steps).mean
        errors.append(float((true - random).abs().max()))
    return max(errors)


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
