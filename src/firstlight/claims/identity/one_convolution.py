"""Study of theorem 2: the error of one trained convolution, its bound, and when it is zero."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor, nn

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.insights.identity_task import write_limit
from firstlight.maths import PatchGeometry, extract_patches
from firstlight.theory import identity as theory
from firstlight.training import Recipe, train


@dataclass(frozen=True, kw_only=True)
class OneConvolutionResult(Result):
    """Deviations of the formula, errors over random starts beside their bound, error at full rank."""

    deviation: float
    violations: float
    ratios: Float[Tensor, " starts"]
    full_rank_error: float


def _deviation(channels: int, side: int, size: int, draw: torch.Generator) -> float:
    """Train one convolution for real; compare its pixel errors on a test image with the formula."""
    image = torch.randn(channels, side, side, generator=draw, dtype=torch.float64)
    model = nn.Conv2d(channels, channels, size, padding=size // 2, bias=False).double()
    model.weight.data = 0.2 * torch.randn(model.weight.shape, generator=draw, dtype=torch.float64)
    start, system = model.weight.detach().flatten(1).clone(), theory.patch_system(image, size=size)
    rate = image.numel() / (2 * float(torch.linalg.matrix_norm(system.patches, 2)) ** 2)
    recipe = Recipe(loss="mse", lr=rate, steps=8000, batch_size=None, stop_below=1e-26)
    train(model, image[None], image[None], recipe, show=False)
    test = torch.randn(1, channels, side, side, generator=draw, dtype=torch.float64)
    patches = extract_patches(test, PatchGeometry.square(size, padding=size // 2))[0]
    measured = (model(test) - test).detach()[0].flatten(1).square().sum(0)
    return float((theory.pixel_errors(system, patches, initial=start) - measured).abs().max())


@study("id.thm2.error", "id.thm2.bound", "id.thm2.full_rank")
class OneConvolution:
    """Is the error of one trained convolution the formula, below its bound, and zero at full rank?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        cases: tuple[tuple[int, int, int], ...] = ((1, 4, 5), (2, 4, 5), (1, 6, 9))  # channels, side, filter
        starts: int = 200
        delta: float = 0.05
        m0: float = 40.0  # the constant of the bound, fixed in advance
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> OneConvolutionResult:
        """Train, draw starts, compare."""
        generator = generator_from("one convolution", cfg.seed)
        deviation = max(_deviation(*case, generator) for case in cfg.cases)
        sigma = 0.3
        image = torch.rand(1, 4, 4, generator=generator, dtype=torch.float64)
        system = theory.patch_system(image, size=5)
        bound = theory.error_bound(system, sigma=sigma, largest_pixel=1.0, delta=cfg.delta, m0=cfg.m0)
        tests = torch.rand(20, 1, 4, 4, generator=generator, dtype=torch.float64)
        patches = extract_patches(tests, PatchGeometry.square(5, padding=2)).flatten(0, 1)
        starts = sigma * torch.randn(cfg.starts, 1, 25, generator=generator, dtype=torch.float64)
        errors = torch.stack([theory.pixel_errors(system, patches, initial=w).mean() for w in starts])
        full = torch.randn(1, 1, 12, 12, generator=generator, dtype=torch.float64)
        layer = nn.Conv2d(1, 1, 5, padding=2, bias=False).double()
        layer.weight.data = torch.randn(1, 1, 5, 5, generator=generator, dtype=torch.float64)
        write_limit(layer, full)
        other = torch.randn(10, 1, 15, 9, generator=generator, dtype=torch.float64)
        return OneConvolutionResult(
            deviation=deviation,
            violations=float((errors > bound).double().mean()),
            ratios=errors / bound,
            full_rank_error=float((layer(other) - other).detach().abs().max()),
        )

    @staticmethod
    def figure(result: OneConvolutionResult) -> Figure:
        """Show how loose the bound is."""
        return curves(
            [Curve(name="error over bound", values=result.ratios.sort().values[None])],
            title="Error of a trained convolution relative to its bound, over random starts",
            alt="All ratios lie far below 1",
            x="start, sorted",
            y="error / bound",
            log_y=True,
        )

    rules = {
        "id.thm2.error": Rule(
            measured=lambda r: {"largest deviation": r.deviation}, reproduced=lambda r: r.deviation < 1e-8
        ),
        "id.thm2.bound": Rule(
            measured=lambda r: {
                "share violating": r.violations,
                "largest error / bound": float(r.ratios.max()),
            },
            reproduced=lambda r: r.violations <= 0.05,
        ),
        "id.thm2.full_rank": Rule(
            measured=lambda r: {"largest error": r.full_rank_error},
            reproduced=lambda r: r.full_rank_error < 1e-10,
        ),
    }
