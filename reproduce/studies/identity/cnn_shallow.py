"""Study of shallow convolutional networks on full digits, and of other input sizes."""

from dataclasses import dataclass
from typing import Any

from firstlight.measures.copy_or_memorise.layer_images import size_response
from firstlight.pages.figures.curves import Curve, curves
from firstlight.pages.figures.figure import Figure
from reproduce.catalogue import study
from reproduce.evidence import Evidence, Measured, by
from reproduce.studies.identity.common import (
    DESK_28,
    SMOKE,
    Grid,
    IdentitySweep,
    Network,
    identity_on_unseen,
    mean_identity,
    with_initial,
)


@study("id.fig3.shallow_cnn", "id.fig6.larger_inputs")
class CnnShallow(IdentitySweep):
    """Do shallow convolutional networks learn the identity from one image, and keep it at other sizes?"""

    @dataclass(frozen=True, kw_only=True)
    class Config(Grid):
        """A sweep over depth, and what is shown to the network of five layers."""

        values: tuple[int, ...] = (1, 3, 5)
        sides: tuple[int, ...] = (7, 14, 28, 56, 112)
        n_probes: int = 5  # images at every size: 112 pixels cost sixteen times 28

    field, axis = "depth", "layers"
    readings = with_initial({"identity": identity_on_unseen, "identity over the angles": mean_identity})
    scales = {
        "smoke": Config(base=SMOKE, n_probes=2),
        "desk": Config(base=DESK_28),
    }

    @classmethod
    def further(cls, cfg: Any, networks: list[Network]) -> Measured:
        """Show images of other sizes to five layers."""
        five = networks[cfg.values.index(5)]
        probes = five.task.images.unseen[: cfg.n_probes]
        shown = {"five layers": five.model, "five initial layers": five.task.build()}
        return {
            f"identity by {name}": by(cfg.sides, size_response(model, probes, cfg.sides).identity)
            for name, model in shown.items()
        }

    @classmethod
    def figure(cls, evidence: Evidence) -> Figure:
        """Pearson over input size."""
        names = {"identity by five layers": "trained", "identity by five initial layers": "null"}
        return curves(
            [Curve(name=name, values=evidence.table(name), role=role) for name, role in names.items()],
            title="The identity at sizes other than the trained one",
            alt="Nearly level above the trained size, lower below it",
            x="side of the input (pixels)",
            y="Pearson to the identity",
            at=[float(side) for side in evidence.points("identity by five layers")],
            log_x=True,
        )
