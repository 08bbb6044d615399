"""The gradient scale matrices while a deep linear network trains."""

from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.theory import deep_linear as dl
from firstlight.training.observers import geometric_steps
from reproduce.catalogue import study
from reproduce.evidence import Measured
from reproduce.studies.learning_order.common import CurveStudy, centred, normalised, one_hot


@study("deeplin.fig3.scale_matrices")
class ScaleMatrices(CurveStudy):
    """Do the gradient scale matrices stay near the identity until a deep linear network has converged?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Data, network, length."""

        data: str = "mnist"
        n: int = 5000
        halve: bool = True
        depth: int = 5
        width: int = 512
        steps: int = 1500
        rate: float = 0.6  # of the stability limit 1 / (L d_1)
        seed: int = 0

    drawn = {"A": "trained", "B": "random labels", "loss left": "null"}
    axes = ("step", "deviation (entries)")
    at, log_axes = "step", "xy"
    scales = {
        "smoke": Config(data="photos", n=300, width=64, steps=20, rate=0.3),
        "desk": Config(),
        "night": Config(halve=False, width=1024, steps=5000, rate=0.3),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Full-batch gradient descent through the moments of the data, in float64."""
        train = normalised(cfg.data, cfg.n, seed=cfg.seed, halve=cfg.halve)
        (x,) = centred(train)
        y = one_hot(train)
        moments = dl.principal_moments(x, y)
        sxx, syx = x.T @ x, y.T @ x
        rate = cfg.rate / (cfg.depth * float(moments.values[0]))
        widths = (x.shape[1], *[cfg.width] * (cfg.depth - 1), y.shape[1])
        generator = generator_from("scale matrices", cfg.seed)
        layers = dl.drawn_layers(widths, dl.definition3_variances(widths), generator=generator)
        wanted = geometric_steps(cfg.steps, count=16)
        losses, readings = [], []
        for step in range(cfg.steps + 1):
            if step in wanted:
                gap = (moments.rotated(dl.compact(layers)) - moments.optimum) * moments.values.sqrt()
                losses.append(gap.square().sum())
                readings.append(_read(layers))
            layers = dl.gradient_step(layers, sxx, syx, rate=rate)
        excess = torch.stack(losses) / losses[0]
        return _measured(excess, torch.stack(readings, dim=-1), tuple(sorted(wanted)))


def _read(layers: list[Tensor]) -> Tensor:
    """Mean diagonal and off-diagonal deviation and largest eigenvalue over layers, of A and of B."""
    scales = dl.scale_matrices(layers)
    rows = []
    for side in (scales.left[:-1], scales.right[1:]):  # the others are the identity
        each = [dl.identity_distance(m) for m in side]
        mean = [sum(d.diagonal for d in each) / len(each), sum(d.off_diagonal for d in each) / len(each)]
        rows.append([*mean, max(d.largest for d in each)])
    return torch.tensor(rows, dtype=torch.float64)


def _measured(excess: Tensor, read: Tensor, steps: tuple[int, ...]) -> Measured:
    before = excess > 0.1  # convergence: a tenth of the excess loss is left
    measured: dict[str, float | Tensor] = {
        "excess loss left": float(excess[-1]),
        "step": torch.tensor(steps[1:]),
        "loss left": excess[1:],
    }
    for index, name in enumerate("AB"):
        diagonal, off, largest = read[index]
        deviation = diagonal + off
        measured |= {
            f"largest diagonal deviation of {name} before convergence": float(diagonal[before].max()),
            f"largest off-diagonal of {name} before convergence": float(off[before].max()),
            f"initial deviation of {name}": float(deviation[0]),
            f"final deviation of {name}": float(deviation[-1]),
            f"largest eigenvalue of {name}": float(largest.max()),
            name: deviation[1:],
        }
    return measured
