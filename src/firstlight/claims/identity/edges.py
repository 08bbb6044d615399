"""Study of intermediate depth: contours instead of copies?"""

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
    numbers,
    sd,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityTask
from firstlight.measures.identity import edge_score, image_outputs


@dataclass(frozen=True, kw_only=True)
class EdgeResult(Result):
    """Correlation with contours and with the input on unseen images."""

    middle_edges: Float[Tensor, " seeds"]
    middle_copy: Float[Tensor, " seeds"]
    middle_relative: Float[Tensor, " seeds"]
    shallow_relative: Float[Tensor, " seeds"]
    untrained_relative: Float[Tensor, " seeds"]
    identity_relative: float


@study("id.fig3.edge_detector")
class Edges:
    """Do networks of about ten layers respond to contours rather than copy?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        base: IdentityTask = DESK_28
        initialiser: str = "xavier_normal"
        steps: int = 2000
        stop_below: float | None = 1e-3
        depth: int = 10
        shallow: int = 3
        n_seeds: int = 2
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE, depth=4, shallow=2, steps=4),
        "desk": Config(),
        "paper": Config(base=PAPER, initialiser="default", steps=2_000_000, stop_below=None, depth=12),
    }

    @staticmethod
    def run(cfg: Config) -> EdgeResult:
        """Train middle and shallow networks alike."""
        settings = {"initialiser": cfg.initialiser, "steps": cfg.steps, "stop_below": cfg.stop_below}
        seeds = range(cfg.seed, cfg.seed + cfg.n_seeds)
        rows = [[varied(cfg.base, s, depth=d, **settings) for s in seeds] for d in (cfg.depth, cfg.shallow)]
        runs = grid(rows, label="contours")
        images = rows[0][0].images.unseen
        fresh = [edge_score(image_outputs(task.build(), images), images).relative for task in rows[0]]
        relative = numbers(runs, lambda f: f.edges.relative)
        return EdgeResult(
            middle_edges=numbers(runs[:1], lambda f: float(f.edges.edges.mean()))[0],
            middle_copy=numbers(runs[:1], identity_on_unseen)[0],
            middle_relative=relative[0],
            shallow_relative=relative[1],
            untrained_relative=torch.tensor(fresh, dtype=torch.float64),
            identity_relative=edge_score(images, images).relative,
        )

    @staticmethod
    def figure(result: EdgeResult) -> Figure:
        """Contours relative to copying."""
        return curves(
            [
                Curve(name="about ten layers", values=result.middle_relative[None]),
                Curve(name="three layers", values=result.shallow_relative[None], role="other"),
                Curve(name="ten layers, untrained", values=result.untrained_relative[None], role="null"),
            ],
            title="Correlation with contours relative to correlation with the input",
            alt="Three values per seed",
            x="seed",
            y="ratio",
        )

    rules = {
        "id.fig3.edge_detector": Rule(
            measured=lambda r: {
                "contours / copy, middle": float(r.middle_relative.mean()),
                "contours / copy, shallow": float(r.shallow_relative.mean()),
                "contours, middle": float(r.middle_edges.mean()),
                "copy, middle": float(r.middle_copy.mean()),
            },
            spread=lambda r: {
                "contours / copy, middle": sd(r.middle_relative),
                "contours / copy, shallow": sd(r.shallow_relative),
            },
            null=lambda r: {
                "contours / copy, untrained": float(r.untrained_relative.mean()),
                "contours / copy, exact identity": r.identity_relative,
            },
            reproduced=lambda r: float(r.middle_relative.mean()) > float(r.shallow_relative.mean()),
            partly=lambda r: 0.5 < float(r.middle_copy.mean()) < 0.9,
            note="any loss of copying raises the ratio, so read it beside the untrained network",
        )
    }
