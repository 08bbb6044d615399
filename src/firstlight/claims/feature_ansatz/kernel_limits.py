"""The kernels as limits of finite networks."""

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.study import Rule, study
from firstlight.core.parallel import report_fraction
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.kernels import ConvKernel, gram


@dataclass(frozen=True, kw_only=True)
class Limits(Result):
    """Tangent kernel of one pair of images: theory, and one draw of a wide network each."""

    flatten: float
    gap: float
    flatten_draws: Float[Tensor, " draws"]
    gap_draws: Float[Tensor, " draws"]

    def deviation(self, readout: str) -> tuple[float, float]:
        """Distance of mean and theory in standard errors, and relative to the theory."""
        theory, draws = getattr(self, readout), getattr(self, f"{readout}_draws")
        error = float(draws.std() / len(draws) ** 0.5)
        gap = abs(float(draws.mean()) - theory)
        return gap / error, gap / theory


@study("kernel.cntk.flatten", "kernel.cntk.gap")
class KernelLimits:
    """Does the recursion give the infinite-width limit of the tangent kernel, flattened and pooled?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        width: int = 1200  # channels of both hidden layers
        draws: int = 40  # networks
        seed: int = 0

    scales: ClassVar = {"smoke": Config(), "desk": Config(), "paper": Config()}

    @staticmethod
    def run(cfg: Config) -> Limits:
        """Theory once, networks many times."""
        generator = generator_from("kernel limits", cfg.seed)
        x, z = torch.randn(2, 2, 6, 7, generator=generator, dtype=torch.float64)
        pair = torch.stack([x, z])
        theory = {
            readout: float(
                gram(
                    pair[:1],
                    pair[1:],
                    kernel=ConvKernel(depth=2, readout=readout),
                    dtype=torch.float64,
                    show=False,
                )
            )
            for readout in ("flatten", "gap")
        }
        found = []
        for draw in range(cfg.draws):
            found.append(_tangent_kernels(pair.float(), cfg.width, generator))
            report_fraction((draw + 1) / cfg.draws)
        flatten, gap = torch.tensor(found, dtype=torch.float64).T
        return Limits(flatten=theory["flatten"], gap=theory["gap"], flatten_draws=flatten, gap_draws=gap)

    @staticmethod
    def figure(result: Limits) -> Figure:
        """Sorted draws around the theory."""
        count = len(result.flatten_draws)
        return curves(
            [
                Curve(name="flatten, one network each", values=result.flatten_draws.sort().values[None]),
                Curve(
                    name="flatten, theory",
                    values=torch.full((1, count), result.flatten, dtype=torch.float64),
                    role="theory",
                ),
                Curve(
                    name="pooled, one network each", values=result.gap_draws.sort().values[None], role="other"
                ),
                Curve(
                    name="pooled, theory",
                    values=torch.full((1, count), result.gap, dtype=torch.float64),
                    role="theory",
                ),
            ],
            title="Finite networks around the infinite one",
            alt="Sorted tangent kernels of wide networks scatter around the two theoretical values",
            x="network, sorted",
            y="tangent kernel of one pair",
        )

    rules: ClassVar = {
        "kernel.cntk.flatten": Rule(
            measured=lambda r: {"networks": float(r.flatten_draws.mean()), "theory": r.flatten},
            reproduced=lambda r: r.deviation("flatten")[0] < 3 and r.deviation("flatten")[1] < 0.05,
            spread=lambda r: {"networks": float(r.flatten_draws.std() / len(r.flatten_draws) ** 0.5)},
            note="the spread is the standard error of the mean",
        ),
        "kernel.cntk.gap": Rule(
            measured=lambda r: {"networks": float(r.gap_draws.mean()), "theory": r.gap},
            reproduced=lambda r: r.deviation("gap")[0] < 3,
            spread=lambda r: {"networks": float(r.gap_draws.std() / len(r.gap_draws) ** 0.5)},
            note="the spread is the standard error of the mean",
        ),
    }


def _tangent_kernels(pair: Tensor, width: int, generator: torch.Generator) -> tuple[float, float]:
    """Empirical tangent kernels of one network in NTK parametrisation, for both read-outs.

    Inner products of weight gradients are inner products of inputs times those of back-propagated
    errors, position by position, so no gradient of the size of the weights is formed.
    """
    w1 = torch.randn(width, pair.shape[1], 3, 3, generator=generator)
    w2 = torch.randn(width, width, 3, 3, generator=generator)
    first = (F.conv2d(pair, w1) / math.sqrt(pair.shape[1])).requires_grad_(True)
    second = F.conv2d(math.sqrt(2) * F.relu(first), w2) / math.sqrt(width)
    hidden = math.sqrt(2) * F.relu(second)
    fixed = hidden.detach()
    n_positions = hidden.shape[2] * hidden.shape[3]
    found = []
    for pooled in (False, True):
        if pooled:
            top = hidden.mean((2, 3))
            read = torch.randn(width, generator=generator)
            value = (top @ read).sum() / math.sqrt(width)
            last = float(fixed.mean((2, 3))[0] @ fixed.mean((2, 3))[1]) / width
        else:
            read = torch.randn(hidden[0].numel(), generator=generator)
            value = (hidden.flatten(1) @ read).sum() / math.sqrt(width * n_positions)
            last = float(fixed[0].flatten() @ fixed[1].flatten()) / (width * n_positions)
        to_first, to_second = torch.autograd.grad(value, [first, second], retain_graph=True)
        lower = _layer_part(pair, to_first) / pair.shape[1]
        upper = _layer_part(math.sqrt(2) * F.relu(first.detach()), to_second) / width
        found.append(last + lower + upper)
    return found[0], found[1]


def _layer_part(inputs: Tensor, errors: Tensor) -> float:
    """Inner product of the two images' gradients by one convolution's weights."""
    x, z = (F.unfold(v[None], 3)[0] for v in inputs)
    a, b = (v.flatten(1) for v in errors)
    return float(((x.T @ z) * (a.T @ b)).sum())
