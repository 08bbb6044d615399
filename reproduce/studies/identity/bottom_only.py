"""Study of a two-layer network of which only the bottom is trained."""

from dataclasses import dataclass, replace
from typing import Any

from firstlight.questions.copy_or_memorise.task import IdentityTask
from reproduce.catalogue import Study, study
from reproduce.evidence import Measured, by
from reproduce.studies.identity.common import (
    DESK_FCN,
    SMOKE_FCN,
    constant_at_zero,
    trained,
)

TWO_LAYERS = replace(DESK_FCN, depth=2, stop_below=1e-3)
GAP = "gain of the constant from training both layers"


@study("id.fig12.bottom_only")
class BottomOnly(Study):
    """Does training only the bottom of two layers leave noise where training both leans to the constant?"""

    @dataclass(frozen=True, kw_only=True)
    class Config:
        """Two layers of several widths, trained both ways from the same weights."""

        base: IdentityTask = TWO_LAYERS
        widths: tuple[int, ...] = (2048, 16_384)
        bottom_lr: float = 1.0  # the bottom alone learns slowly
        bottom_steps: int = 500
        seed: int = 0

    scales = {
        "smoke": Config(base=replace(SMOKE_FCN, depth=2), widths=(16, 32), bottom_steps=4),
        "desk": Config(),
    }
    unit = "cosine at rho = 0, or loss"

    @classmethod
    def run(cls, cfg: Config) -> Measured:
        """Train both ways at every width."""
        both = [replace(cfg.base, seed=cfg.seed, width=width) for width in cfg.widths]
        changes: dict[str, Any] = {"frozen": ("fc2",), "lr": cfg.bottom_lr, "steps": cfg.bottom_steps}
        networks = trained([*both, *(replace(task, **changes) for task in both)], label="Bottom only")
        n = len(both)
        after = [constant_at_zero(network.after) for network in networks]
        losses = [network.after.loss for network in networks]
        labels = [f"{ways} {w}" for ways in ("both layers", "bottom only") for w in cfg.widths]
        return {
            "constant with both layers trained": by(cfg.widths, after[:n]),
            "constant with the bottom trained": by(cfg.widths, after[n:]),
            GAP: by(cfg.widths, [a - b for a, b in zip(after[:n], after[n:], strict=True)]),
            "initial constant": by(cfg.widths, [constant_at_zero(net.before) for net in networks[:n]]),
            "loss": by(labels, losses),
        }
