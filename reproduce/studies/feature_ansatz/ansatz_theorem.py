"""Study of Theorem 1 of CNFA and its limits."""

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from firstlight._internal.seeds import generator_from
from firstlight.maths.correlation import cosine
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from firstlight.theory.least_squares import one_step_filters
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured


@study("cnfa.thm1", "cnfa.thm1.relaxed")
class AnsatzTheorem(Study):
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

    scales = {"smoke": Config(), "desk": Config(points=50)}

    @classmethod
    def run(cls, cfg: Config) -> Measured:
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

        networks = {"equal": equal, "scaled": scaled, "different": different}
        steps = {name: _one_step(g, patches, targets, cfg.lr, cfg.filters) for name, g in networks.items()}
        distances = {name: _distances(g, steps[name], points) for name, g in networks.items()}
        closed = one_step_filters(mix.T @ read, patches, targets, lr=cfg.lr)
        return {
            **{f"distance with {name} slopes": float(d.max()) for name, d in distances.items()},
            "error of the closed form": float((steps["equal"] - closed).norm() / closed.norm()),
            **distances,
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Draw the distance from proportionality, point by point."""
        roles = {"equal": "trained", "scaled": "theory", "different": "null"}
        return curves(
            [
                Curve(
                    name=f"{name} slopes",
                    values=torch.stack(evidence.arrays[name]).clamp(min=1e-17),
                    role=role,
                )
                for name, role in roles.items()
            ],
            title="Distance from proportionality after one step",
            alt="Rounding errors for equal and scaled slopes, visible distances for different ones",
            x="evaluation point",
            y="1 - cosine",
            log_y=True,
        )


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
