"""Study of two ways to tell the story: squared error and correlation."""

from dataclasses import dataclass, replace

import torch

from firstlight.maths.correlation import spearman
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.heatmap import heatmap
from firstlight.questions.copy_or_memorise.task import Findings, IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.identity.common import (
    DESK,
    DESK_FCN,
    SMOKE,
    SMOKE_FCN,
    trained,
)

MAP = "mean squared error of the CNN by depth and angle"


def _agreement(networks: list[Findings], reference: str) -> float:
    """Rank correlation of error and distance to a reference over the grid of depth and angle."""
    responses = [findings.response for findings in networks]
    error = torch.stack([getattr(response, f"mse_{reference}") for response in responses]).flatten()
    distance = torch.stack([1 - getattr(response, reference) for response in responses]).flatten()
    return float(spearman(error, distance))


@study("id.fig33_35.mse")
class MseStory(Study):
    """Do error maps tell the same story as correlation maps?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Both families at several depths."""

        cnn: IdentityTask = DESK
        cnn_depths: tuple[int, ...] = (1, 3, 5, 7, 10, 14, 20)
        fcn: IdentityTask = DESK_FCN
        fcn_depths: tuple[int, ...] = (1, 2, 4, 6)
        seed: int = 0

    scales = {
        "smoke": Config(cnn=SMOKE, cnn_depths=(1, 3), fcn=SMOKE_FCN, fcn_depths=(1, 2)),
        "desk": Config(),
    }

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Compare over the grid."""
        tasks = {f"CNN {d}": replace(cfg.cnn, seed=cfg.seed, depth=d) for d in cfg.cnn_depths}
        tasks |= {f"FCN {d}": replace(cfg.fcn, seed=cfg.seed, depth=d) for d in cfg.fcn_depths}
        networks = trained(list(tasks.values()), label="Two maps")
        n = len(cfg.cnn_depths)
        families = {"CNN": networks[:n], "FCN": networks[n:]}
        cases = [(family, reference) for family in families for reference in ("identity", "constant")]
        names = [" ".join(case) for case in cases]
        after = [_agreement([net.after for net in families[f]], reference) for f, reference in cases]
        before = [_agreement([net.before for net in families[f]], reference) for f, reference in cases]
        return {
            "agreement": by(names, after),
            "initial agreement": by(names, before),
            "loss": by(tasks, [net.after.loss for net in networks]),
            MAP: torch.stack([net.after.response.mse_identity for net in networks[:n]]),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Error to the identity."""
        grid = torch.stack(evidence.arrays[MAP]).mean(0)
        depths = [str(point) for point in evidence.points("loss")][: len(grid)]
        return heatmap(
            grid,
            rows=[f"{depth.removeprefix('CNN ')} layers" for depth in depths],
            columns=[f"{i / (grid.shape[1] - 1):.1f}" for i in range(grid.shape[1])],
            title="Mean squared error to the identity, by depth and angle",
            alt="Errors grow with depth, away from the training image",
            x="cosine of test and training image",
            y="depth",
            symmetric=False,
        )
