"""Study of shallow convolutional networks on full digits, and of other input sizes."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK_28,
    PAPER,
    SMOKE,
    grid,
    identity_on_unseen,
    mean_identity,
    numbers,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask
from firstlight.measures.identity import size_response


@dataclass(frozen=True, kw_only=True)
class ShallowResult(Result):
    """Pearson to the identity on unseen images by depth, and at other sizes."""

    depths: tuple[int, ...]
    unseen: Float[Tensor, "depths seeds"]
    over_rho: Float[Tensor, "depths seeds"]
    untrained: Float[Tensor, " depths"]
    trained_side: int
    sides: tuple[int, ...]
    at_sizes: Float[Tensor, "depths seeds sizes"]

    def at(self, depth: int, side: int) -> float:
        """Mean Pearson of one depth at one size."""
        return float(self.at_sizes[self.depths.index(depth), :, self.sides.index(side)].mean())


@study("id.fig3.shallow_cnn", "id.fig6.larger_inputs")
class CnnShallow:
    """Do shallow convolutional networks learn the identity from one image, and keep it at other sizes?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_28
        depths: tuple[int, ...] = (1, 3, 5)
        sides: tuple[int, ...] = (7, 14, 28, 56, 112)
        n_seeds: int = 3
        n_probes: int = 5  # images at every size: 112 pixels cost sixteen times 28
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, n_seeds=2, n_probes=2),
        "desk": Config(),
        "paper": Config(base=PAPER, n_probes=30),
    }

    @staticmethod
    def run(cfg: Config) -> ShallowResult:
        """Train and resize."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [[varied(cfg.base, s, depth=d) for s in seeds] for d in cfg.depths]
        runs = grid(rows, label="shallow")
        probes = rows[0][0].images.unseen[: cfg.n_probes]
        sizes = [
            torch.stack([size_response(run.model, probes, cfg.sides).identity for run in row]) for row in runs
        ]
        return ShallowResult(
            depths=cfg.depths,
            unseen=numbers(runs, identity_on_unseen),
            over_rho=numbers(runs, mean_identity),
            untrained=numbers(runs, lambda f: f.untrained).mean(1),
            trained_side=cfg.base.image_size,
            sides=cfg.sides,
            at_sizes=torch.stack(sizes),
        )

    @staticmethod
    def figure(result: ShallowResult) -> Figure:
        """Pearson over input size."""
        roles = ("trained", "random labels", "other")
        return curves(
            [
                Curve(name=f"{d} layers", values=v, role=role)
                for d, v, role in zip(result.depths, result.at_sizes, roles, strict=False)
            ],
            title="The identity at sizes other than the trained one",
            alt="Nearly level above the trained size, lower below it",
            x="side of the input (pixels)",
            y="Pearson to the identity",
            at=result.sides,
            log_x=True,
        )

    rules = {
        "id.fig3.shallow_cnn": Rule(
            measured=lambda r: {
                **{f"{d} layers": float(v.mean()) for d, v in zip(r.depths, r.unseen, strict=True)},
                **{f"over rho, {d}": float(v.mean()) for d, v in zip(r.depths, r.over_rho, strict=True)},
            },
            spread=lambda r: {f"{d} layers": sd(v) for d, v in zip(r.depths, r.unseen, strict=True)},
            null=lambda r: {f"untrained, {d}": float(v) for d, v in zip(r.depths, r.untrained, strict=True)},
            reproduced=lambda r: bool((r.unseen.mean(1) > 0.9).all()),
            partly=lambda r: bool(
                (r.unseen.mean(1) > torch.tensor([0.9 if d < 5 else 0.85 for d in r.depths])).all()
            ),
        ),
        "id.fig6.larger_inputs": Rule(
            measured=lambda r: (
                {f"5 layers, {s} px": r.at(5, s) for s in r.sides}
                | {f"3 layers, {s} px": r.at(3, s) for s in r.sides}
            ),
            spread=lambda r: {
                f"5 layers, {s} px": sd(r.at_sizes[r.depths.index(5), :, i]) for i, s in enumerate(r.sides)
            },
            reproduced=lambda r: r.at(5, 112) >= r.at(5, 28) - 0.1 and r.at(5, 7) < r.at(5, 28),
            partly=lambda r: r.at(3, 56) > r.at(3, 7),
        ),
    }
