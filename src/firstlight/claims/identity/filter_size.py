"""Study of the size of the filters."""

from dataclasses import replace

from firstlight.claims.conditions import all_of
from firstlight.claims.identity.common import (
    DESK,
    FITTED,
    PAPER,
    SMOKE,
    Grid,
    IdentitySweep,
    mean_constant,
    mean_identity,
    with_initial,
)
from firstlight.claims.quantities import at_end, value
from firstlight.claims.rules import Change, Rule
from firstlight.claims.study import study

NARROW = replace(DESK, depth=3, width=8, initialiser="xavier_normal", steps=800, stop_below=1e-4)


@study
class FilterSize(IdentitySweep):
    """Do filters that cover the image favour the constant map?"""

    field, axis = "kernel", "side of the filters"
    readings = with_initial({"constant": mean_constant, "identity": mean_identity})
    scales = {
        "smoke": Grid(base=replace(SMOKE, depth=3, width=2), values=(3, 9)),
        "desk": Grid(base=NARROW, values=(5, 13, 29)),  # the last covers a 14 x 14 image from every pixel
        "night": Grid(base=replace(NARROW, depth=5, width=16, image_size=28), values=(5, 13, 29, 57)),
        "paper": Grid(base=replace(PAPER, depth=5), values=(5, 7, 9, 13, 17, 25, 29, 57)),
    }
    rules = (
        Rule(
            claim="id.fig9.filter_size",
            effect=all_of(
                value("constant", at=57) > value("constant", at=5),
                value("identity", at=57) < value("identity", at=5),
            ),
            reduced=all_of(
                at_end("constant", end="last") > at_end("constant", end="first"),
                at_end("identity", end="last") < at_end("identity", end="first"),
            ),
            null=at_end("constant", end="last") - at_end("constant", end="first")
            > at_end("initial constant", end="last") - at_end("initial constant", end="first"),
            requires=FITTED,
            change=Change(
                "size 57 was judged though 29 was the largest that ran, and the blur was not judged in full"
            ),
        ),
    )
