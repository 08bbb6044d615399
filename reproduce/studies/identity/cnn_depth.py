"""Study of depth in convolutional networks: from the identity to the constant."""

import torch

from firstlight.maths.correlation import spearman
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.heatmap import heatmap
from reproduce.catalogue import study
from reproduce.evidence import Evidence, Measured
from reproduce.studies.identity.common import (
    DESK,
    NIGHT,
    SMOKE,
    Grid,
    IdentitySweep,
    Network,
    Reading,
    constant_on_unseen,
    identity_on_unseen,
    mean_constant,
    mean_identity,
    with_initial,
)

TREND = "smaller rank correlation with depth"
MAP = "cosine to the identity by depth and angle"


@study("id.fig3.deep_cnn", "id.fig4.depth_monotone")
class CnnDepth(IdentitySweep):
    """Does a convolutional network turn from the identity to the constant map as it gets deeper?"""

    field, axis = "depth", "layers"
    readings = with_initial(
        {
            "identity": mean_identity,
            "constant": mean_constant,
            "identity on unseen": identity_on_unseen,
            "constant on unseen": constant_on_unseen,
        }
    )
    scales = {
        "smoke": Grid(base=SMOKE, values=(1, 3, 5)),
        "desk": Grid(base=DESK, values=(1, 3, 5, 7, 10, 14, 20)),
        "night": Grid(base=NIGHT, values=(1, 3, 5, 7, 10, 14, 20)),
    }

    @classmethod
    def further(cls, cfg: Grid, networks: list[Network]) -> Measured:
        """Trends over depth, and the heat map."""
        depths = torch.tensor(cfg.values, dtype=torch.float64)

        def trend(read: Reading) -> float:
            return float(spearman(depths, torch.tensor([read(n.after) for n in networks]).double()))

        lost, gained = -trend(mean_identity), trend(mean_constant)
        return {
            "rank correlation of lost identity with depth": lost,
            "rank correlation of constant with depth": gained,
            TREND: min(lost, gained),
            MAP: torch.stack([network.after.response.identity for network in networks]),
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """The heat map of depth against angle."""
        grid = torch.stack(evidence.arrays[MAP]).mean(0)
        return heatmap(
            grid,
            rows=[f"{depth} layers" for depth in evidence.points("identity")],
            columns=[f"{i / (grid.shape[1] - 1):.1f}" for i in range(grid.shape[1])],
            title="Cosine to the identity, by depth and angle to the training image",
            alt="High for shallow networks at all angles, for deep ones near the training image only",
            x="cosine of test and training image",
            y="depth",
        )
