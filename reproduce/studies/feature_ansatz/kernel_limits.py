"""Study of the kernels as limits of finite networks."""

import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from firstlight._internal.executor import report_fraction
from firstlight._internal.seeds import generator_from
from firstlight.kernels.gram import kernel_gram
from firstlight.kernels.kernel import ConvKernel
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured

READOUTS = {"flattened": "flatten", "pooled": "gap"}


@study("kernel.cntk.flatten", "kernel.cntk.gap")
class KernelLimits(Study):
    """Does the recursion give the infinite-width limit of the tangent kernel, flattened and pooled?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Wide networks whose mean is compared with the limit."""

        width: int = 1200  # channels of both hidden layers
        draws: int = 40  # networks
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Compute the limit once and the tangent kernels of many networks."""
        generator = generator_from("kernel limits", cfg.seed)
        x, z = torch.randn(2, 2, 6, 7, generator=generator, dtype=torch.float64)
        pair = torch.stack([x, z])
        tangents = []
        for draw in range(cfg.draws):
            tangents.append(_tangent_kernels(pair.float(), cfg.width, generator))
            report_fraction((draw + 1) / cfg.draws)
        measured: dict[str, float | Tensor] = {}
        for (name, readout), draws in zip(
            READOUTS.items(), torch.tensor(tangents, dtype=torch.float64).T, strict=True
        ):
            for kind in ("ntk", "nngp"):
                kernel = ConvKernel(depth=2, readout=readout, kind=kind)
                limit = kernel_gram(pair[:1], pair[1:], kernel=kernel, dtype=torch.float64, show=False)
                measured[f"{name} {kind.upper()}"] = float(limit)
            measured[f"{name} networks"] = float(draws.mean())
            measured[f"standard error of {name} networks"] = float(draws.std() / len(draws) ** 0.5)
            measured[name] = draws.sort().values
        return measured

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the sorted networks around the limit."""
        roles = {"flattened": "trained", "pooled": "other"}
        networks = {name: evidence.arrays[name][0] for name in READOUTS}
        limits = {name: evidence.values[f"{name} NTK"][None][0] for name in READOUTS}
        return curves(
            [
                *(
                    Curve(name=f"{n}, one network each", values=d[None], role=roles[n])
                    for n, d in networks.items()
                ),
                *(
                    Curve(name=f"{n}, limit", values=limits[n].expand(1, len(d)), role="theory")
                    for n, d in networks.items()
                ),
            ],
            title="Finite networks around the infinite one",
            alt="Sorted tangent kernels of wide networks scatter around the two theoretical values",
            x="network, sorted",
            y="tangent kernel of one pair",
        )


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
    kernels = []
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
        kernels.append(last + lower + upper)
    return kernels[0], kernels[1]


def _layer_part(inputs: Tensor, errors: Tensor) -> float:
    """Inner product of the two images' gradients by one convolution's weights."""
    x, z = (F.unfold(v[None], 3)[0] for v in inputs)
    a, b = (v.flatten(1) for v in errors)
    return float(((x.T @ z) * (a.T @ b)).sum())
