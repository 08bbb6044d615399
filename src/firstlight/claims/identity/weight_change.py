"""Study of how far each layer moves."""

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
from firstlight.figures import Curve, Figure, curves
from firstlight.insights import IdentityRun, IdentityTask
from firstlight.measures.identity import weight_changes


@dataclass(frozen=True, kw_only=True)
class WeightChangeResult(Result):
    """Relative change of every layer, bottom to top."""

    shallow: Float[Tensor, " shallow_layers"]
    deep: Float[Tensor, " deep_layers"]
    connected: Float[Tensor, " fcn_layers"]
    connected_loss: float


def _changes(run: IdentityRun) -> Tensor:
    initial = dict(run.settings.build().state_dict())
    return torch.tensor(list(weight_changes(initial, run.found.weights).values()), dtype=torch.float64)


@study("id.fig19.weight_change")
class WeightChange:
    """Which layers move, and do the lowest ones stay in place?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Settings."""

        cnn: IdentityTask = DESK
        depths: tuple[int, int] = (5, 10)
        fcn: IdentityTask = DESK_FCN
        fcn_depth: int = 12  # eleven hidden layers
        seed: int = 0

    scales = {
        "smoke": Config(cnn=SMOKE, depths=(2, 3), fcn=SMOKE_FCN, fcn_depth=6),
        "desk": Config(),
        "paper": Config(cnn=PAPER, depths=(10, 20), fcn=PAPER_FCN),
    }

    @staticmethod
    def run(cfg: Config) -> WeightChangeResult:
        """Compare weights before and after."""
        tasks = [varied(cfg.cnn, cfg.seed, depth=d) for d in cfg.depths]
        tasks.append(varied(cfg.fcn, cfg.seed, depth=cfg.fcn_depth))
        (runs,) = grid([tasks], label="weight change")
        return WeightChangeResult(
            shallow=_changes(runs[0]),
            deep=_changes(runs[1]),
            connected=_changes(runs[2]),
            connected_loss=runs[2].found.loss,
        )

    @staticmethod
    def figure(result: WeightChangeResult) -> Figure:
        """By layer."""
        return curves(
            [Curve(name="deep CNN", values=result.deep[None])],
            title="Relative change of the weights, bottom to top",
            alt="One value per layer",
            x="layer",
            y="|W - W0| / |W0|",
        )

    rules = {
        "id.fig19.weight_change": Rule(
            measured=lambda r: {
                "CNN, fewer layers: top": float(r.shallow[-1]),
                "CNN, fewer layers: largest other": float(r.shallow[:-1].max()),
                "CNN, more layers: top": float(r.deep[-1]),
                "CNN, more layers: largest other": float(r.deep[:-1].max()),
                "CNN, more layers: smallest": float(r.deep.min()),
                "FCN: top": float(r.connected[-1]),
                "FCN: largest of the lowest five": float(r.connected[:5].max()),
                "FCN: loss": r.connected_loss,
            },
            reproduced=lambda r: (
                all(float(v[-1]) == float(v.max()) for v in (r.shallow, r.deep))
                and float(r.deep.min()) > 0
                and float(r.connected[:5].max()) < 0.02
            ),
            partly=lambda r: all(float(v[-1]) == float(v.max()) for v in (r.shallow, r.deep)),
            note="near zero in the deep FCN is read as below 2 % in each of the lowest five layers",
        )
    }
