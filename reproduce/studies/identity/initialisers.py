"""Study of the initialiser."""

from dataclasses import replace

from reproduce.catalogue import study
from reproduce.studies.identity.common import (
    DESK_28,
    SMOKE,
    Grid,
    IdentitySweep,
    identity_on_unseen,
    mean_identity,
    with_initial,
)

KAIMING = ("kaiming_normal", "kaiming_uniform")
OTHERS = ("default", "xavier_normal", "xavier_uniform", "orthogonal")


@study("id.fig31.init")
class Initialisers(IdentitySweep):
    """Do shallow networks learn the identity from every initialisation?"""

    field, axis = "initialiser", "initialiser"
    readings = with_initial({"identity": identity_on_unseen, "identity over the angles": mean_identity})
    scales = {
        name: Grid(base=replace(base, depth=3), values=(*OTHERS, *KAIMING))
        for name, base in (("smoke", SMOKE), ("desk", DESK_28))
    }
