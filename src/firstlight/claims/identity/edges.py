"""Study of intermediate depth: contours instead of copies?"""

from dataclasses import replace

from firstlight.claims.conditions import all_of
from firstlight.claims.evidence import Measured
from firstlight.claims.identity.common import (
    DESK_28,
    FITTED,
    PAPER,
    SMOKE,
    Grid,
    IdentitySweep,
    Network,
    identity_on_unseen,
    with_initial,
)
from firstlight.claims.quantities import lowest, value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import study
from firstlight.measures.copy_or_memorise.identity_score import edge_score

XAVIER = replace(DESK_28, initialiser="xavier_normal", steps=2000, stop_below=1e-3)


@study
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
        "paper": Grid(base=PAPER, values=(3, 10, 12, 15)),
    }
    rules = (
        Rule(
            claim="id.fig3.edge_detector",
            effect=lowest("contours / copy", over=(10, 12, 15)) > value("contours / copy", at=3),
            reduced=value("contours / copy", at=10) > value("contours / copy", at=3),
            null=all_of(
                value("contours", at=10) > value("initial contours", at=10),
                value("contours / copy", at=10) > value("contours / copy of an exact copy"),
            ),
            requires=FITTED,
            note="the ratio of a network that copies nothing is large whatever it draws, so the null asks for "
            "more contours than before training, and for a larger ratio than that of an exact copy",
            change=Change("the weaker rule asked only for imperfect copying, which says nothing of contours"),
        ),
    )

    @classmethod
    def further(cls, cfg: Grid, networks: list[Network]) -> Measured:
        """The ratio of a network that copies exactly."""
        images = networks[0].task.images.unseen
        return {"contours / copy of an exact copy": edge_score(images, images).relative}
