"""Study of two ways to tell the story: squared error and correlation."""

from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from firstlight.claims.identity.support import (
    DESK,
    DESK_FCN,
    PAPER,
    PAPER_FCN,
    SMOKE,
    SMOKE_FCN,
    grid,
    varied,
)
from firstlight.claims.study import Rule, study
from firstlight.core.result import Result
from firstlight.figures import Figure, heatmap
from firstlight.insights import IdentityRun, IdentityTask
from firstlight.maths import spearman


@dataclass(frozen=True, kw_only=True)
class MseResult(Result):
    """Rank correlation over the grid of depth and angle, of each family with each reference."""

    names: tuple[str, ...]
    agreements: Float[Tensor, " four"]
    errors: Float[Tensor, "depths r"]
    depths: tuple[int, ...]


def _agreement(runs: list[IdentityRun], reference: str) -> float:
    curves = [run.found.response for run in runs]
    error = torch.stack([getattr(c, f"mse_{reference}") for c in curves]).flatten()
    distance = torch.stack([1 - getattr(c, reference) for c in curves]).flatten()
    return float(spearman(error, distance))


@study("id.fig33_35.mse")
class MseStory:
    """Do error maps tell the same story as correlation maps?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        cnn: IdentityTask = DESK
        cnn_depths: tuple[int, ...] = (1, 3, 5, 7, 10, 14, 20)
        fcn: IdentityTask = DESK_FCN
        fcn_depths: tuple[int, ...] = (1, 2, 4, 6)
        seed: int = 0

    scales = {
        "smoke": Config(cnn=SMOKE, cnn_depths=(1, 3), fcn=SMOKE_FCN, fcn_depths=(1, 2)),
        "desk": Config(),
        "paper": Config(cnn=PAPER, fcn=PAPER_FCN, fcn_depths=(1, 2, 4, 6, 10)),
    }

    @staticmethod
    def run(cfg: Config) -> MseResult:
        """Compare over the grid."""
        rows = [
            [varied(cfg.cnn, cfg.seed, depth=d) for d in cfg.cnn_depths],
            [varied(cfg.fcn, cfg.seed, depth=d) for d in cfg.fcn_depths],
        ]
        cnn, fcn = grid(rows, label="two maps")
        names = [(kind, reference) for kind in ("CNN", "FCN") for reference in ("identity", "constant")]
        return MseResult(
            names=tuple(f"{kind}, {reference}" for kind, reference in names),
            agreements=torch.tensor(
                [_agreement(cnn if kind == "CNN" else fcn, reference) for kind, reference in names]
            ),
            errors=torch.stack([run.found.response.mse_identity for run in cnn]),
            depths=cfg.cnn_depths,
        )

    @staticmethod
    def figure(result: MseResult) -> Figure:
        """Error to the identity."""
        return heatmap(
            result.errors,
            rows=[f"{d} layers" for d in result.depths],
            columns=[f"{i / 10:.1f}" for i in range(result.errors.shape[1])],
            title="Mean squared error to the identity, by depth and angle",
            alt="Errors grow with depth, away from the training image",
            x="cosine of test and training image",
            y="depth",
            symmetric=False,
        )

    rules = {
        "id.fig33_35.mse": Rule(
            measured=lambda r: {n: float(v) for n, v in zip(r.names, r.agreements, strict=True)},
            reproduced=lambda r: float(r.agreements.min()) > 0.7,
            partly=lambda r: float(r.agreements.min()) > 0.5,
            note="the smallest of four rank correlations decides",
        )
    }
