"""Study of intermediate depth: contours instead of copies?"""

from dataclasses import replace

from firstlight.measures.copy_or_memorise.identity_score import edge_score
from reproduce.catalogue import study
from reproduce.evidence import Measured
from reproduce.studies.identity.common import (
    DESK_28,
    SMOKE,
    Grid,
    IdentitySweep,
    Network,
    identity_on_unseen,
    with_initial,
)

XAVIER = replace(DESK_28, initialiser="xavier_normal", steps=2000, stop_below=1e-3)


@study("id.fig3.edge_detector")
class Edges(IdentitySweep):
    """Do networks of about ten layers respond to contours rather than copy?"""

    field, axis = "depth", "layers"
    readings = with_initial(
        {
            "contours / copy": lambda findings: findings.edges.relative,
            "contours": lambda findings: float(findings.edges.edges.mean()),
            "copy": identity_on_unseen,
        }
    )
    scales = {
        "smoke": Grid(base=SMOKE, values=(3, 10)),
        "desk": Grid(base=XAVIER, values=(3, 10)),
        "night": Grid(base=replace(XAVIER, width=64, stop_below=1e-6), values=(3, 10, 12, 15)),
    }

    @classmethod
    def further(cls, cfg: Grid, networks: list[Network]) -> Measured:
        """The ratio of a network that copies exactly."""
        images = networks[0].task.images.unseen
        return {"contours / copy of an exact copy": edge_score(images, images).relative}
