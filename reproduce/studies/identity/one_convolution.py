"""Study of theorem 2: the error of one trained convolution, its bound, and when it is zero."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from firstlight._internal.seeds import generator_from
from firstlight.maths.patches import PatchGeometry, extract_patches
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.theory import one_convolution as theory
from firstlight.training.loop import train
from firstlight.training.recipe import Recipe
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by

RATIOS = "error over bound by initial weights"


@study("id.thm2.error", "id.thm2.bound", "id.thm2.full_rank")
class OneConvolution(Study):
    """Is the error of one trained convolution the formula, below its bound, and zero at full rank?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Cases of the formula as (channels, side, filter), and draws of initial weights for the bound."""

        cases: tuple[tuple[int, int, int], ...] = ((1, 4, 5), (2, 4, 5), (1, 6, 9))
        draws: int = 200
        delta: float = 0.05
        m0: float = 40.0  # the constant of the bound, fixed in advance
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}
    unit = "deviation, share or ratio"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train, draw initial weights, compare."""
        generator = generator_from("one convolution", cfg.seed)
        deviation = max(_deviation(*case, generator) for case in cfg.cases)
        image = torch.rand(1, 4, 4, generator=generator, dtype=torch.float64)
        tests = torch.rand(20, 1, 4, 4, generator=generator, dtype=torch.float64)
        blank, white = torch.zeros(1, 1, 1).double(), torch.ones(1, 1, 1, 1).double()
        ratios = {
            "5 x 5 filter": _over_bound(cfg, image, tests, size=5, sigma=0.3, draw=generator),
            "one pixel": _over_bound(cfg, blank, white, size=1, sigma=0.1, draw=generator),
        }
        full = torch.randn(1, 12, 12, generator=generator, dtype=torch.float64)
        layer = _trained(full, 5, torch.randn(1, 1, 5, 5, generator=generator, dtype=torch.float64))
        other = torch.randn(10, 1, 15, 9, generator=generator, dtype=torch.float64)
        return {
            "deviation from the formula": deviation,
            "share of violations": by(ratios, [float((r > 1).double().mean()) for r in ratios.values()]),
            "largest error over bound": by(ratios, [float(r.max()) for r in ratios.values()]),
            "error at full rank": float((layer(other) - other).detach().abs().max()),
            RATIOS: torch.stack([r.sort().values for r in ratios.values()]),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Show how loose the bound is, and where it is not."""
        loose, tight = evidence.arrays[RATIOS][0]
        return curves(
            [
                Curve(name="5 x 5 filter", values=loose[None]),
                Curve(name="one pixel", values=tight[None], role="other"),
            ],
            title="Error of a trained convolution relative to its bound, over random initial weights",
            alt="All ratios lie below 1, those of 5 x 5 filters far below",
            x="initial weights, sorted",
            y="error / bound",
            log_y=True,
        )


def _trained(image: Tensor, size: int, initial: Tensor) -> nn.Conv2d:
    """Train one convolution to reproduce one image, by gradient descent at half the largest stable rate."""
    channels = image.shape[0]
    layer = nn.Conv2d(channels, channels, size, padding=size // 2, bias=False).double()
    layer.weight.data = initial.clone()
    system = theory.patch_system(image, size=size)
    rate = image.numel() / (2 * float(torch.linalg.matrix_norm(system.patches, 2)) ** 2)
    recipe = Recipe(loss="mse", lr=rate, steps=8000, batch_size=None, stop_below=1e-26)
    train(layer, image[None], image[None], recipe, show=False)
    return layer


def _deviation(channels: int, side: int, size: int, draw: torch.Generator) -> float:
    """Largest difference between the pixel errors of a trained convolution and the formula."""
    image = torch.randn(channels, side, side, generator=draw, dtype=torch.float64)
    shape = (channels, channels, size, size)
    initial = 0.2 * torch.randn(shape, generator=draw, dtype=torch.float64)
    layer = _trained(image, size, initial)
    test = torch.randn(1, channels, side, side, generator=draw, dtype=torch.float64)
    patches = extract_patches(test, PatchGeometry.square(size, padding=size // 2))[0]
    measured = (layer(test) - test).detach()[0].flatten(1).square().sum(0)
    formula = theory.pixel_errors(theory.patch_system(image, size=size), patches, initial=initial.flatten(1))
    return float((formula - measured).abs().max())


def _over_bound(
    cfg: OneConvolution.Config,
    image: Tensor,
    tests: Tensor,
    *,
    size: int,
    sigma: float,
    draw: torch.Generator,
) -> Tensor:
    """Mean squared error over the bound, for every draw of Gaussian initial weights."""
    system = theory.patch_system(image, size=size)
    bound = theory.error_bound(system, sigma=sigma, largest_pixel=1.0, delta=cfg.delta, m0=cfg.m0)
    patches = extract_patches(tests, PatchGeometry.square(size, padding=size // 2)).flatten(0, 1)
    initial = sigma * torch.randn(cfg.draws, 1, size * size, generator=draw, dtype=torch.float64)
    errors = [theory.pixel_errors(system, patches, initial=weights).mean() for weights in initial]
    return torch.stack(errors) / bound
