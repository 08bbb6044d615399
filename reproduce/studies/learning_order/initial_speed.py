"""Definition 3 against Glorot's weights in a linear network with one wide hidden layer."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.theory import deep_linear as dl
from reproduce.catalogue import study
from reproduce.evidence import Measured, by
from reproduce.studies.learning_order.common import CurveStudy, centred, one_hot, pair

CHECKPOINTS = (5, 20, 59, 200)


@study("init.fig12")
class InitialSpeed(CurveStudy):
    """Does definition 3 train faster than Glorot's rule when one hidden layer is wide?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and network."""

        data: str = "cats_dogs"
        n: int = 5000
        n_test: int = 2000
        halve: bool = True
        width: int = 3000
        steps: int = 500
        fraction: float = 0.5  # of the largest stable rate
        seed: int = 0

    drawn = {"definition 3": "trained", "Glorot": "random labels", "Glorot redrawn": "null"}
    axes = ("step", "excess loss / initial excess loss")
    log_axes = "y"
    scales = {
        "smoke": Config(data="photos:coffee/flower", n=100, n_test=50, width=100, steps=10),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Full-batch descent on the squared loss."""
        train, test = pair(cfg.data, cfg.n, cfg.n_test, seed=cfg.seed, halve=cfg.halve)
        x, z = centred(train, test)
        moments = dl.principal_moments(x, one_hot(train))
        seeds = {"definition 3": cfg.seed, "Glorot": cfg.seed, "Glorot redrawn": cfg.seed + 1000}
        runs, rates = {}, {}
        for name, seed in seeds.items():
            layers = _initial(cfg, x.shape[1], train.n_classes, name, seed)
            rates[name] = cfg.fraction * 2 / _curvature(layers, x.T @ x)
            runs[name] = _descent(layers, moments, rates[name], cfg.steps)
        layers = _initial(cfg, x.shape[1], train.n_classes, "definition 3", cfg.seed)
        runs["definition 3 with the rate of Glorot"] = _descent(layers, moments, rates["Glorot"], cfg.steps)
        frequencies = train.counts.double() / len(train)
        accuracies = [((z @ w.T + frequencies).argmax(1) == test.y).double().mean() for _, w in runs.values()]
        points = [t for t in CHECKPOINTS if t < cfg.steps]
        return {
            "test accuracy": by(runs, torch.stack(accuracies)),
            **{f"loss left from {name}": by(points, losses[points]) for name, (losses, _) in runs.items()},
            **{name: losses for name, (losses, _) in runs.items()},
        }


def _initial(cfg: InitialSpeed.Config, q: int, k: int, rule: str, seed: int) -> list[Tensor]:
    widths = (q, cfg.width, k)
    variances = dl.definition3_variances(widths) if rule == "definition 3" else dl.glorot_variances(widths)
    generator = generator_from("initial speed", seed)
    return dl.drawn_layers(widths, variances, generator=generator, distribution="uniform")


def _curvature(layers: list[Tensor], sxx: Tensor) -> float:
    """Largest factor by which a first-order step multiplies an error; rates up to 2 over it are stable."""
    scales = dl.scale_matrices(layers)
    probe = torch.ones(layers[-1].shape[0], sxx.shape[0], dtype=sxx.dtype)
    probe[0] *= -0.5
    size = torch.ones(())
    for _ in range(60):
        terms = [a @ probe @ sxx @ b for a, b in zip(scales.left, scales.right, strict=True)]
        probe = torch.stack(terms).sum(0)
        size = probe.norm()
        probe = probe / size
    return float(size)


def _descent(
    layers: list[Tensor], moments: dl.PrincipalMoments, rate: float, steps: int
) -> tuple[Tensor, Tensor]:
    """Loss above the optimum at each step, relative to the first, and the map at the end."""
    basis = moments.basis
    sxx, syx = (basis * moments.values) @ basis.T, moments.cross @ basis.T
    losses = []
    for _ in range(steps):
        gap = (moments.rotated(dl.compact(layers)) - moments.optimum) * moments.values.sqrt()
        losses.append(gap.square().sum())
        layers = dl.gradient_step(layers, sxx, syx, rate=rate)
    return torch.stack(losses) / losses[0], dl.compact(layers)
