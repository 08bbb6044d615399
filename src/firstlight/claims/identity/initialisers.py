"""Study of the initialiser."""

from dataclasses import replace

from firstlight.claims.conditions import all_of, each
from firstlight.claims.identity.common import (
    DESK_28,
    FITTED,
    PAPER,
    SMOKE,
    Grid,
    IdentitySweep,
    identity_on_unseen,
    mean_identity,
    with_initial,
)
from firstlight.claims.quantities import highest, lowest
from firstlight.claims.rules import Rule
from firstlight.claims.study import study

KAIMING = ("kaiming_normal", "kaiming_uniform")
OTHERS = ("default", "xavier_normal", "xavier_uniform", "orthogonal")


@study
class Initialisers(IdentitySweep):
    """Do shallow networks learn the identity from every initialisation?"""

    field, axis = "initialiser", "initialiser"
    readings = with_initial({"identity": identity_on_unseen, "identity over the angles": mean_identity})
    scales = {
        name: Grid(base=replace(base, depth=3), values=(*OTHERS, *KAIMING))
        for name, base in (("smoke", SMOKE), ("desk", DESK_28), ("paper", PAPER))
    }
    rules = (
        Rule(
            claim="id.fig31.init",
            effect=all_of(
                each("identity", ">", 0.8),
                lowest("identity", over=KAIMING) < lowest("identity", over=OTHERS),
            ),
            reduced=each("identity", ">", 0.7),
            null=lowest("identity") > highest("initial identity"),
            requires=FITTED,
        ),
    )
