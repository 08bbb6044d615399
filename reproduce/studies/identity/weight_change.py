"""Study of how far each layer moves."""

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from firstlight.measures.copy_or_memorise.layer_chain import weight_changes
from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity.common import (
    DESK,
    DESK_FCN,
    SMOKE,
    SMOKE_FCN,
    Network,
    trained,
)

LOW = "change of the lowest five layers of the FCN"


def _changes(network: Network) -> Tensor:
    initial = dict(network.task.build().state_dict())
    return torch.tensor(list(weight_changes(initial, network.after.weights).values()), dtype=torch.float64)


@study("id.fig19.weight_change")
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
    }
    unit = "relative change of the weights"

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
