"""Definition 3 against Glorot's weights in a linear network with one wide hidden layer."""

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.learning_order._shared import centred, one_hot, pair
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.theory import deep_linear as dl

INITS = ("definition 3", "glorot")


@dataclass(frozen=True, kw_only=True)
class InitialSpeed(Result):
    """Loss over steps, by initialisation; rates at one fraction of each stability limit, or equal."""

    steps: tuple[int, ...]
    scaled: Float[Tensor, "seeds 2 t"]
    equal: Float[Tensor, "seeds 2 t"]
    accuracy: Float[Tensor, "seeds 2"]  # on test images at the end, scaled rates


@study("init.fig12")
class InitialisationSpeed:
    """Does definition 3 train faster than Glorot's rule when one hidden layer is wide?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data and network."""

        data: str = "cats_dogs"
        n: int = 2000
        n_test: int = 1000
        width: int = 3000
        steps: int = 60
        fraction: float = 0.5  # of the largest stable rate
        seeds: int = 3
        seed: int = 0

    scales: ClassVar = {
        "smoke": Config(data="photos:coffee/flower", n=100, n_test=50, width=100, steps=10, seeds=1),
        "desk": Config(),
        "paper": Config(n=10_000, n_test=2000, width=10_000, seeds=10),
    }

    @staticmethod
    def run(cfg: Config) -> InitialSpeed:
        """Full-batch descent on the squared loss."""
        train, test = pair(cfg.data, cfg.n, cfg.n_test, seed=cfg.seed)
        x, z = centred(train, test)
        y = one_hot(train)
        scaled, equal, accuracy = [], [], []
        for s in range(cfg.seeds):
            starts = [_start(cfg, x.shape[1], y.shape[1], rule, cfg.seed + s) for rule in INITS]
            limits = [1 / _curvature(layers, x.T @ x) for layers in starts]
            runs = [
                _descent(w, x, y, cfg.fraction * 2 * r, cfg.steps)
                for w, r in zip(starts, limits, strict=True)
            ]
            same = [_descent(w, x, y, cfg.fraction * 2 * min(limits), cfg.steps) for w in starts]
            scaled.append(torch.stack([curve for curve, _ in runs]))
            equal.append(torch.stack([curve for curve, _ in same]))
            shares = train.counts.double() / len(train)
            accuracy.append(
                torch.stack([((z @ w.T + shares).argmax(1) == test.y).double().mean() for _, w in runs])
            )
        return InitialSpeed(
            steps=tuple(range(cfg.steps)),
            scaled=torch.stack(scaled),
            equal=torch.stack(equal),
            accuracy=torch.stack(accuracy),
        )

    @staticmethod
    def figure(result: InitialSpeed) -> Figure:
        """Loss curves."""
        return curves(
            [
                Curve(name="definition 3", values=result.scaled[:, 0]),
                Curve(name="Glorot", values=result.scaled[:, 1], role="random labels"),
            ],
            title="Loss from two initialisations, rates at one fraction of their limits",
            alt="Loss over steps of both initialisations",
            x="step",
            y="loss per example",
            at=result.steps,
            log_y=True,
        )

    rules: ClassVar = {
        "init.fig12": Rule(
            measured=lambda r: {
                **{f"definition 3, step {t}": float(r.scaled[:, 0, t].mean()) for t in _checkpoints(r)},
                **{f"Glorot, step {t}": float(r.scaled[:, 1, t].mean()) for t in _checkpoints(r)},
                "accuracy, definition 3": float(r.accuracy[:, 0].mean()),
                "accuracy, Glorot": float(r.accuracy[:, 1].mean()),
            },
            reproduced=lambda r: all(
                float(r.scaled[:, 0, t].mean()) < float(r.scaled[:, 1, t].mean()) for t in _checkpoints(r)
            ),
            partly=lambda r: all(
                float(r.scaled[:, 0, t].mean()) < float(r.scaled[:, 1, t].mean()) for t in _checkpoints(r)
            ),
            spread=lambda r: {
                "accuracy, definition 3": float(r.accuracy[:, 0].std()) if len(r.accuracy) > 1 else 0.0
            },
            null=lambda r: {
                "equal rates, definition 3 at the end": float(r.equal[:, 0, -1].mean()),
                "equal rates, Glorot at the end": float(r.equal[:, 1, -1].mean()),
            },
        )
    }


def _checkpoints(result: InitialSpeed) -> list[int]:
    last = len(result.steps) - 1
    return sorted({0, min(5, last), min(20, last), last})


def _start(cfg: "InitialisationSpeed.Config", q: int, k: int, rule: str, seed: int) -> list[Tensor]:
    widths = (q, cfg.width, k)
    variances = dl.definition3_variances(widths) if rule == "definition 3" else dl.glorot_variances(widths)
    generator = generator_from("initial speed", seed)
    return dl.drawn_layers(widths, variances, generator=generator, distribution="uniform")


def _curvature(layers: list[Tensor], sxx: Tensor) -> float:
    """Largest factor by which a first-order step multiplies an error: half of 2 over it is stable."""
    scales = dl.scale_matrices(layers)
    probe = torch.ones(layers[-1].shape[0], sxx.shape[0], dtype=sxx.dtype)
    probe[0] *= -0.5
    size = torch.ones(())
    for _ in range(60):
        probe = sum(
            (a @ probe @ sxx @ b for a, b in zip(scales.left, scales.right, strict=True)),
            torch.zeros_like(probe),
        )
        size = probe.norm()
        probe = probe / size
    return float(size)


def _descent(layers: list[Tensor], x: Tensor, y: Tensor, rate: float, steps: int) -> tuple[Tensor, Tensor]:
    sxx, syx, total = x.T @ x, y.T @ x, y.square().sum()
    losses = []
    for _ in range(steps):
        weights = dl.compact(layers)
        squares = ((weights @ sxx) * weights).sum() - 2 * (weights * syx).sum() + total
        losses.append(0.5 * squares / len(x))
        layers = dl.stepped(layers, sxx, syx, rate=rate)
    return torch.stack(losses), dl.compact(layers)
