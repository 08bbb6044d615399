"""Study of depth in convolutional networks: from the identity to the constant."""

import torch

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Evidence, Measured
from firstlight.claims.identity.common import (
    DESK,
    FITTED,
    NIGHT,
    PAPER,
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
from firstlight.claims.quantities import value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import study
from firstlight.maths.correlation import spearman
from firstlight.pages.figures.figure import Figure
from firstlight.pages.figures.heatmap import heatmap

TREND = "smaller rank correlation with depth"
MAP = "cosine to the identity by depth and angle"

identity_lost = value("identity", at=3) - value("identity", at=20)
constant_gained = value("constant", at=20) - value("constant", at=3)
FAR = all_of(identity_lost > 0.2, constant_gained > 0.1)


@study
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
        "paper": Grid(base=PAPER, values=(1, 3, *range(5, 18), 19, 20, 24)),
    }
    rules = (
        Rule(
            claim="id.fig3.deep_cnn",
            effect=all_of(
                value("constant on unseen", at=20) > 0.8,
                value("constant on unseen", at=20) > value("identity on unseen", at=20),
            ),
            reduced=all_of(
                value("constant on unseen", at=20) > 0.7,
                value("constant on unseen", at=20) > value("identity on unseen", at=20),
            ),
            null=value("constant on unseen", at=20) > value("initial constant on unseen", at=20),
            requires=value("loss", at=20) < 0.01,
        ),
        Rule(
            claim="id.fig4.depth_monotone",
            effect=all_of(
                value(TREND) > 0.8,
                FAR,
            ),
            reduced=FAR,
            null=all_of(
                identity_lost > value("initial identity", at=3) - value("initial identity", at=20),
                constant_gained > value("initial constant", at=20) - value("initial constant", at=3),
            ),
            requires=FITTED,
            note="the rank correlations are those of lost identity and of gained similarity to the constant",
            change=Change("a rank correlation of means says nothing of how far the networks turn"),
        ),
    )

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
