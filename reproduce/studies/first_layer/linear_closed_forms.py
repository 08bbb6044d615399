"""Study of the closed forms against iterated gradient descent."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.theory import least_squares as ls
from firstlight.theory import linear_cnn as theory
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by

Draw = Callable[..., Tensor]


def _iterate(k: Tensor, y: Tensor, *, rate: float, steps: int, initial: Tensor | None = None) -> Tensor:
    w = torch.zeros(k.shape[1], dtype=torch.float64) if initial is None else initial.clone()
    for _ in range(steps):
        w = w - rate * k.mT @ (k @ w - y)
    return w


def _error(a: Tensor, b: Tensor) -> float:
    return float((a - b).norm() / b.norm())


@study(
    "linear.thm41.optimal",
    "linear.thm42.spectral",
    "linear.thm42.lambda",
    "linear.AB_form",
    "linear.label_blind_limit",
)
class LinearClosedForms(Study):
    """Do the closed forms equal gradient descent on least squares, and where does the printed one fail?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Random matrices of full and of low rank."""

        steps: tuple[int, ...] = (1, 10, 100, 1000, 3000)
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config()}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Compare on random matrices, full and low rank."""
        generator = generator_from("closed forms", cfg.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        errors, distance = [], []
        for n in (40, 15):
            k, y, initial = draw(n, 27), draw(n), draw(27)
            spectral = ls.spectrum(k)
            rate = 0.9 / spectral.largest
            best = ls.optimal_weights(spectral, y)
            for steps in cfg.steps:
                for begin in (None, initial):
                    closed = ls.weights(spectral, y, rate=rate, steps=steps, initial=begin)
                    errors.append(_error(closed, _iterate(k, y, rate=rate, steps=steps, initial=begin)))
                if n == 40:
                    distance.append(_error(ls.weights(spectral, y, rate=rate, steps=steps), best))

        k, y = draw(60, 12), draw(60)
        spectral = ls.spectrum(k)
        rate = 0.9 / spectral.largest
        ridge = []
        for steps in (1, 10, 100):
            matrix = k.mT @ k + spectral.matrix(ls.regulariser(spectral.values, rate=rate, steps=steps))
            ridge.append(_error(torch.linalg.solve(matrix, k.mT @ y), _iterate(k, y, rate=rate, steps=steps)))
        best = ls.optimal_weights(spectral, y)
        loss = (k @ best - y).square().sum()
        others = [(k @ (best + 0.1 * draw(12)) - y).square().sum() for _ in range(20)]
        commuting, early, late, printed = _diagonal_form_errors(draw)
        return {
            "error of the spectral form": max(errors),
            "error of the regularised form": max(ridge),
            "gradient at the optimum": float((k.mT @ (k @ best - y)).abs().max()),
            "smallest excess loss": float(min(others) - loss),
            "error where the mean is an eigenvector": commuting,
            "error after 3 steps": early,
            "error after 30 steps": late,
            "error as printed": printed,
            "error of the label-blind limit": _label_blind_error(draw),
            "distance to the optimum": by(cfg.steps, distance),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw how gradient descent nears the optimum."""
        return curves(
            [
                Curve(
                    name="distance to the optimum",
                    values=evidence.table("distance to the optimum"),
                    role="theory",
                )
            ],
            title="Gradient descent in closed form",
            alt="The relative distance to the least-squares optimum falls with the number of steps",
            x="step",
            y="relative distance",
            at=[float(point) for point in evidence.points("distance to the optimum")],
            log_x=True,
            log_y=True,
        )


def _diagonal_form_errors(draw: Draw) -> tuple[float, float, float, float]:
    """Errors of the repaired A/B form: commuting, generic early and late; and of the printed one."""
    scatter, moment = draw(8).abs() + 0.2, draw(8)
    eigen = torch.zeros(8, dtype=torch.float64)
    eigen[2] = 1.7

    def truth(mean: Tensor, rate: float, steps: int) -> Tensor:
        gram, w = torch.diag(scatter) + torch.outer(mean, mean), torch.zeros_like(moment)
        for _ in range(steps):
            w = w - rate * (gram @ w - moment)
        return w

    errors = []
    generic = draw(8)
    for mean, steps in ((eigen, 30), (generic, 3), (generic, 30)):
        rate = 0.9 / float(scatter.max() + mean.square().sum())
        form = theory.diagonal_form(scatter, mean, moment, rate=rate, steps=steps)
        errors.append(_error(form, truth(mean, rate, steps)))
    rate = 0.9 / float(scatter.max() + eigen.square().sum())
    a = ls.filter_function(scatter, rate=rate, steps=30)
    b = ls.filter_function(scatter + eigen.square().sum(), rate=rate, steps=30)
    printed = a * moment + (b / eigen.square().sum() - a) * eigen * (eigen @ moment)  # E-07
    commuting, early, late = errors
    return commuting, early, late, _error(printed, truth(eigen, rate, 30))


def _label_blind_error(draw: Draw) -> float:
    k, y = draw(40, 9) + 0.5, draw(40).abs()
    centred = k - k.mean(0)
    y = y - centred @ torch.linalg.lstsq(centred, y - y.mean()).solution
    spectral = ls.spectrum(k)
    rate = 0.5 / spectral.largest
    true = ls.weights(spectral, y, rate=rate, steps=50)
    blind = y.mean() * ls.weights(spectral, torch.ones_like(y), rate=rate, steps=50)
    return float((true - blind).abs().max())
