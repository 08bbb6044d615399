"""Study of the initialiser."""

from dataclasses import dataclass

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


@dataclass(frozen=True, kw_only=True)
class InitialiserResult(Result):
    """Pearson on unseen images and mean cosine over the angles, by initialiser."""

    names: tuple[str, ...]
    unseen: Float[Tensor, "inits seeds"]
    over_rho: Float[Tensor, "inits seeds"]
    untrained: Float[Tensor, " inits"]


@study("id.fig31.init")
class Initialisers:
    """Do shallow networks learn the identity from every initialisation?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_28
        depth: int = 3
        names: tuple[str, ...] = (
            "default",
            "xavier_normal",
            "xavier_uniform",
            "kaiming_normal",
            "kaiming_uniform",
            "orthogonal",
        )
        n_seeds: int = 2
        seed: int = 0

    scales = {"smoke": Config(base=SMOKE), "desk": Config(), "paper": Config(base=PAPER)}

    @staticmethod
    def run(cfg: Config) -> InitialiserResult:
        """Train from each."""
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [[varied(cfg.base, s, depth=cfg.depth, initialiser=name) for s in seeds] for name in cfg.names]
        runs = grid(rows, label="initialisers")
        return InitialiserResult(
            names=cfg.names,
            unseen=numbers(runs, identity_on_unseen),
            over_rho=numbers(runs, mean_identity),
            untrained=numbers(runs, lambda f: f.untrained).mean(1),
        )

    @staticmethod
    def figure(result: InitialiserResult) -> Figure:
        """By initialiser."""
        return curves(
            [
                Curve(name="unseen images (Pearson)", values=result.unseen.mT),
                Curve(name="over the angles (cosine)", values=result.over_rho.mT, role="other"),
                Curve(name="untrained (Pearson)", values=result.untrained[None], role="null"),
            ],
            title="Similarity to the identity: " + ", ".join(result.names),
            alt="All initialisers give similar values",
            x="initialiser, in the order of the title",
            y="similarity to the identity",
        )

    rules = {
        "id.fig31.init": Rule(
            measured=lambda r: (
                {n: float(v.mean()) for n, v in zip(r.names, r.unseen, strict=True)}
                | {f"{n}, over rho": float(v.mean()) for n, v in zip(r.names, r.over_rho, strict=True)}
            ),
            spread=lambda r: {n: sd(v) for n, v in zip(r.names, r.unseen, strict=True)},
            null=lambda r: {f"untrained, {n}": float(v) for n, v in zip(r.names, r.untrained, strict=True)},
            reproduced=lambda r: (
                bool((r.unseen.mean(1) > 0.8).all())
                and r.names[int(r.unseen.mean(1).argmin())].startswith("kaiming")
            ),
            partly=lambda r: bool((r.unseen.mean(1) > 0.7).all()),
        )
    }
