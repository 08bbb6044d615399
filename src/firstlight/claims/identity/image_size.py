"""Study of the size of the training image."""

from dataclasses import replace

from firstlight.claims.conditions import falling
from firstlight.claims.identity.common import (
    DESK,
    FITTED,
    NIGHT,
    PAPER,
    SMOKE,
    Grid,
    IdentitySweep,
    constant_on_unseen,
    mean_constant,
    with_initial,
)
from firstlight.claims.quantities import at_end
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import study


@study
class ImageSize(IdentitySweep):
    """Do smaller training images push a network of fixed depth to the constant map?"""

    field, axis = "image_size", "side of the training image (pixels)"
    readings = with_initial({"constant": mean_constant, "constant on unseen": constant_on_unseen})
    scales = {
        "smoke": Grid(base=replace(SMOKE, depth=2, width=4), values=(6, 8, 10)),
        "desk": Grid(base=replace(DESK, depth=14, width=16), values=(10, 14, 20, 28)),
        "night": Grid(base=replace(NIGHT, depth=14), values=(7, 14, 21, 28)),
        "paper": Grid(base=replace(PAPER, depth=14), values=(7, 14, 21, 28)),
    }
    rules = (
        Rule(
            claim="id.fig8.image_size",
            effect=falling("constant"),
            reduced=at_end("constant", end="first") > at_end("constant", end="last"),
            null=at_end("constant", end="first") - at_end("constant", end="last")
            > at_end("initial constant", end="first") - at_end("initial constant", end="last"),
            requires=FITTED,
            change=Change("the weaker rule spoke of another measure than the published one"),
        ),
    )
