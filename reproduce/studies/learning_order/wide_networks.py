"""Deep linear networks as they get wider: closed form, concentration, rate by depth."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.theory import deep_linear as dl
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by

DEPTHS = (1, 2, 4)
MATRICES = ("B_2", "B_5", "A_1")


@study("deeplin.eq10.deep", "deeplin.thm4.variance", "deeplin.depth_rate")
class WideNetworks(Study):
    """Do wide deep linear networks follow the closed form, and does depth multiply their rate?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Sizes."""

        widths: tuple[int, ...] = (200, 800, 3200)  # for the closed form
        concentration_widths: tuple[int, ...] = (100, 1000, 4000)
        rate_width: int = 1000
        steps: int = 100
        rate_nets: int = 4  # the rate is that of their spread
        target: float = 0.1  # size of the targets of the rate, so that they do not dwarf the initial outputs
        seed: int = 0

    scales = {
        "smoke": Config(
            widths=(50, 100, 200), concentration_widths=(50, 200), rate_width=200, steps=10, rate_nets=2
        ),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Step the networks for real, in float64."""
        errors = [_closed_form_errors(w, cfg.steps, cfg.seed) for w in cfg.widths]
        off = torch.stack([_off_diagonals(w, cfg.seed) for w in cfg.concentration_widths], dim=1)
        x = torch.tensor(cfg.concentration_widths).double().log()
        x = x - x.mean()
        rates = [_leading_rate(depth, cfg, trained=depth) for depth in DEPTHS]
        alone = [_leading_rate(depth, cfg, trained=1) for depth in DEPTHS]
        return {
            "error of the closed form": by(cfg.widths, [e for e, _ in errors]),
            "error of the closed form without the factor L": by(cfg.widths, [e for _, e in errors]),
            "slope of the off-diagonals": by(MATRICES, (off.log() * x).sum(1) / x.square().sum()),
            "speed-up over depth 1": by(DEPTHS[1:], [r / rates[0] for r in rates[1:]]),
            "speed-up with one layer trained": by(DEPTHS[1:], [r / alone[0] for r in alone[1:]]),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Error of the closed form against width."""
        widths = torch.tensor([float(w) for w in evidence.points("error of the closed form")])
        errors = evidence.table("error of the closed form")
        reference = errors.mean(0)[0] * (widths[0] / widths).sqrt()
        return curves(
            [
                Curve(name="closed form, depth 3", values=errors),
                Curve(name="one over root width", values=reference[None], role="theory"),
            ],
            title="The closed form gets better with width",
            alt="Relative error of the predicted columns falls as networks get wider",
            x="hidden units",
            y="relative error",
            at=widths.tolist(),
            log_x=True,
            log_y=True,
        )


def _data(q: int, k: int, seed: int, *, size: float = 1.0) -> tuple[Tensor, Tensor]:
    generator = generator_from("wide", seed)
    x = torch.randn(200, q, generator=generator, dtype=torch.float64) * torch.logspace(0, -1, q).double()
    teacher = torch.randn(q, k, generator=generator, dtype=torch.float64) / q**0.5
    return x, size * (x @ teacher)


def _layers(widths: tuple[int, ...], seed: int) -> list[Tensor]:
    return dl.drawn_layers(widths, dl.definition3_variances(widths), generator=generator_from("layers", seed))


def _closed_form_errors(width: int, steps: int, seed: int) -> tuple[float, float]:
    """Relative error of the predicted columns, with the factor L of the rate and without it."""
    x, y = _data(20, 3, seed)
    sxx, syx, moments = x.T @ x, y.T @ x, dl.principal_moments(x, y)
    rate = 0.02 / (3 * float(moments.values[0]))
    layers = _layers((20, width, width, 3), seed)
    initial = moments.rotated(dl.compact(layers))
    for _ in range(steps):
        layers = dl.gradient_step(layers, sxx, syx, rate=rate)
    reached = moments.rotated(dl.compact(layers))
    expected = [dl.columns_at(initial, moments, rate=rate, steps=steps, depth=depth) for depth in (3, 1)]
    errors = [float((reached - e).norm() / expected[0].norm()) for e in expected]
    return errors[0], errors[1]


def _off_diagonals(width: int, seed: int) -> Tensor:
    scales = dl.scale_matrices(_layers((50, *[width] * 4, 10), seed))
    chosen = (scales.right[1], scales.right[4], scales.left[0])
    return torch.tensor([dl.identity_distance(m).off_diagonal_rms for m in chosen], dtype=torch.float64)


def _leading_rate(depth: int, cfg: WideNetworks.Config, *, trained: int) -> float:
    """Initial decay rate of the leading column's spread when the first `trained` layers move."""
    x, y = _data(20, 3, cfg.seed, size=cfg.target)
    sxx, syx, moments = x.T @ x, y.T @ x, dl.principal_moments(x, y)
    rate, steps = 0.02 / float(moments.values[0]), 5
    columns = []
    for net in range(cfg.rate_nets):
        layers = _layers((20, *[cfg.rate_width] * (depth - 1), 3), 1000 * cfg.seed + net)
        before = dl.compact(layers)
        for _ in range(steps):
            layers = [*dl.gradient_step(layers, sxx, syx, rate=rate)[:trained], *layers[trained:]]
        columns.append(torch.stack([moments.rotated(w)[:, 0] for w in (before, dl.compact(layers))]))
    spread = torch.stack(columns).std(0).mean(1)
    return -float((spread[1] / spread[0]).log()) / steps
