"""Study of skip connections in fully connected networks."""

from dataclasses import dataclass, replace

from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity.common import (
    DESK_FCN,
    SMOKE_FCN,
    identity_on_unseen,
    read_all,
    trained,
    with_initial,
)

LEAD = "lead of residual over plain networks"


@study("id.fig41.residual")
class Residual(Study):
    """Do identity skips bias fully connected networks to the identity?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Residual networks, and plain ones of equal depth."""

        base: IdentityTask
        blocks: tuple[int, ...] = (1, 2, 4)  # of two weight layers each
        seed: int = 0

    scales = {
        "smoke": Config(base=SMOKE_FCN, blocks=(1, 2)),
        "desk": Config(base=DESK_FCN),
    }
    unit = "Pearson to the identity, or loss"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train residual and plain networks of equal depth."""
        base = replace(cfg.base, seed=cfg.seed)
        tasks = [replace(base, family="residual_fcn", depth=blocks) for blocks in cfg.blocks]
        networks = trained([*tasks, *(replace(base, depth=2 * b) for b in cfg.blocks)], label="Residual")
        n, readings = len(cfg.blocks), with_initial({"identity": identity_on_unseen})
        residual, plain = (read_all(readings, cfg.blocks, part) for part in (networks[:n], networks[n:]))
        return {
            **{f"{name} of residual networks": series for name, series in residual.items() if name != "loss"},
            **{f"{name} of plain networks": series for name, series in plain.items() if name != "loss"},
            LEAD: by(cfg.blocks, residual["identity"].values - plain["identity"].values),
            "loss": by(
                [f"{kind} {blocks}" for kind in ("residual", "plain") for blocks in cfg.blocks],
                [network.after.loss for network in networks],
            ),
        }
