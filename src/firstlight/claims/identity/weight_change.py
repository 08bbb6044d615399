"""Study of how far each layer moves."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from firstlight.claims.conditions import all_of, each
from firstlight.claims.evidence import Measured, by
from firstlight.claims.identity.common import (
    DESK,
    DESK_FCN,
    FITTED,
    PAPER,
    PAPER_FCN,
    SMOKE,
    SMOKE_FCN,
    Network,
    trained,
)
from firstlight.claims.quantities import lowest, value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import Study, study
from firstlight.measures.copy_or_memorise.layer_chain import weight_changes
from firstlight.questions.copy_or_memorise.task import IdentityTask

LOW = "change of the lowest five layers of the FCN"
STILL = 0.02  # "barely move": less than 2 % of a layer's initial norm


def _changes(network: Network) -> Tensor:
    initial = dict(network.task.build().state_dict())
    return torch.tensor(list(weight_changes(initial, network.after.weights).values()), dtype=torch.float64)


@study
class WeightChange(Study):
    """Which layers move, and do the lowest ones stay in place?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Two convolutional networks, and a fully connected one of eleven hidden layers."""

        cnn: IdentityTask = DESK
        depths: tuple[int, int] = (5, 10)
        fcn: IdentityTask = DESK_FCN
        fcn_depth: int = 12
        seed: int = 0

    scales = {
        "smoke": Config(cnn=SMOKE, depths=(2, 3), fcn=SMOKE_FCN, fcn_depth=6),
        "desk": Config(),
        "paper": Config(cnn=PAPER, depths=(10, 20), fcn=PAPER_FCN),
    }
    unit = "relative change of the weights"
    rules = (
        Rule(
            claim="id.fig19.weight_change",
            effect=all_of(
                each("lead of the top layer", ">", 0),
                lowest("smallest change in the CNN") > STILL,
                value(LOW) < STILL,
            ),
            reduced=each("lead of the top layer", ">", 0),
            null=all_of(
                lowest("top layer over mean layer") > 1,
                value(LOW) < value("change of the mean layer of the FCN"),
            ),
            requires=FITTED,
            note="lead: change of the top layer minus the largest other; the null is that place does not matter",
            change=Change(
                "the fully connected network had not fitted, and any movement counted as not vanishing"
            ),
        ),
    )

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Compare weights before and after."""
        tasks = [replace(cfg.cnn, seed=cfg.seed, depth=depth) for depth in cfg.depths]
        fcn = replace(cfg.fcn, seed=cfg.seed, depth=cfg.fcn_depth)
        networks = trained([*tasks, fcn], label="Weight change")
        *cnns, connected = (_changes(network) for network in networks)
        return {
            "lead of the top layer": by(cfg.depths, [float(c[-1] - c[:-1].max()) for c in cnns]),
            "top layer over mean layer": by(cfg.depths, [float(c[-1] / c.mean()) for c in cnns]),
            "smallest change in the CNN": by(cfg.depths, [float(c.min()) for c in cnns]),
            LOW: float(connected[:5].max()),
            "change of the mean layer of the FCN": float(connected.mean()),
            "change of the top layer of the FCN": float(connected[-1]),
            "loss": by([*(f"CNN {d}" for d in cfg.depths), "FCN"], [net.after.loss for net in networks]),
        }
