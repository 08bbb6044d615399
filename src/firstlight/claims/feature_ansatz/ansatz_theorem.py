"""Theorem 1 of CNFA and its limits."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.core.seeds import generator_from
from firstlight.figures import Curve, Figure, curves
from firstlight.maths import cosine
from firstlight.theory.one_step import one_step_filters


@dataclass(frozen=True, kw_only=True)
class OneStep(Result):
    """1 minus the cosine of the two matrices at several points, for three kinds of network."""

    equal: Float[Tensor, " points"]
    scaled: Float[Tensor, " points"]
    different: Float[Tensor, " points"]
    closed_form_error: float


@study("cnfa.thm1", "cnfa.thm1.relaxed")
class OneStepFromZero:
    """Are filters and gradients proportional after one step from zero, and what does it take?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Sizes of the tanh networks."""

        n_examples: int = 7
        n_patches: int = 6
        patch: int = 5
        filters: int = 4
        points: int = 5  # at which the gradients are evaluated
        lr: float = 1e-3  # larger steps saturate the tanh, and a gradient of zero points nowhere
        seed: int = 0

    scales = {"smoke": Config(), "desk": Config(points=50), "paper": Config(points=50)}

    @staticmethod
    def run(cfg: Config) -> OneStep:
        """Take the step by automatic differentiation and compare at random points."""
        generator = generator_from("one step", cfg.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator, dtype=torch.float64)

        patches, targets = draw(cfg.n_examples, cfg.n_patches, cfg.patch), draw(cfg.n_examples)
        points = draw(cfg.points, cfg.n_patches, cfg.patch)
        read, mix, bend = draw(6), draw(6, cfg.filters), draw(cfg.n_patches, 1)
        omega, mixes = draw(cfg.n_patches, 1), draw(cfg.n_patches, 6, cfg.filters)

        def equal(z: Tensor) -> Tensor:  # patches differ, but not in their slope at zero
            return torch.tanh((torch.tanh(z) + bend * z.square()).sum(-2) @ mix.T) @ read

        def scaled(z: Tensor) -> Tensor:
            return torch.tanh((torch.tanh(omega * z)).sum(-2) @ mix.T) @ read

        def different(z: Tensor) -> Tensor:
            return torch.tanh(torch.einsum("...mk,mjk->...j", torch.tanh(z), mixes)) @ read

        found = {
            g.__name__: _one_step(g, patches, targets, cfg.lr, cfg.filters)
            for g in (equal, scaled, different)
        }
        closed = one_step_filters(mix.T @ read, patches, targets, lr=cfg.lr)
        return OneStep(
            equal=_distances(equal, found["equal"], points),
            scaled=_distances(scaled, found["scaled"], points),
            different=_distances(different, found["different"], points),
            closed_form_error=float((found["equal"] - closed).norm() / closed.norm()),
        )

    @staticmethod
    def figure(result: OneStep) -> Figure:
        """Draw the distance from proportionality, point by point."""
        floor = 1e-17
        return curves(
            [
                Curve(name="equal slopes", values=result.equal.clamp(min=floor)[None]),
                Curve(name="scaled slopes", values=result.scaled.clamp(min=floor)[None], role="theory"),
                Curve(name="different slopes", values=result.different.clamp(min=floor)[None], role="null"),
            ],
            title="Distance from proportionality after one step",
            alt="Rounding errors for equal and scaled slopes, visible distances for different ones",
            x="evaluation point",
            y="1 - cosine",
            log_y=True,
        )

    rules = {
        "cnfa.thm1": Rule(
            measured=lambda r: {"1 - cosine": float(r.equal.max()), "closed form": r.closed_form_error},
            reproduced=lambda r: float(r.equal.max()) < 1e-10,
            null=lambda r: {"different slopes": float(r.different.max())},
        ),
        "cnfa.thm1.relaxed": Rule(
            measured=lambda r: {"scaled": float(r.scaled.max()), "different": float(r.different.max())},
            reproduced=lambda r: float(r.scaled.max()) < 1e-10 and float(r.different.max()) > 1e-4,
        ),
    }


def _one_step(
    g: Callable[[Tensor], Tensor], patches: Tensor, targets: Tensor, lr: float, filters: int
) -> Tensor:
    w = torch.zeros(filters, patches.shape[2], dtype=torch.float64, requires_grad=True)
    loss = 0.5 * (targets - g(patches @ w.T)).square().sum()
    (gradient,) = torch.autograd.grad(loss, w)
    return -lr * gradient


def _distances(g: Callable[[Tensor], Tensor], w: Tensor, points: Tensor) -> Tensor:
    """1 minus the cosine of feature matrix and gradient outer product, at every point."""
    moved = points.clone().requires_grad_()
    (gradients,) = torch.autograd.grad(g(moved @ w.T).sum(), moved)
    outer = torch.einsum("pma,pmb->pab", gradients, gradients).flatten(1)
    return 1 - cosine(outer, (w.T @ w).flatten().expand_as(outer))
