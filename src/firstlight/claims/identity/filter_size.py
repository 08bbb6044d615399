"""Study of the size of the filters."""

from dataclasses import replace

from firstlight.claims.identity.common import (
    DESK,
    PAPER,
    SMOKE,
    Grid,
    IdentitySweep,
    mean_constant,
    mean_identity,
)
from firstlight.claims.quantities import at_end, value
from firstlight.claims.rules import Change, NoNull, Rule
from firstlight.claims.study import study

NARROW = replace(DESK, depth=3, width=8, initialiser="xavier_normal", steps=800, stop_below=1e-4)


@study
class FilterSize(IdentitySweep):
    """Do filters that cover the image favour the constant map?"""

    field, axis = "kernel", "side of the filters"
    readings = {"constant": mean_constant, "identity": mean_identity}
    scales = {
        "smoke": Grid(base=replace(SMOKE, depth=3, width=2), values=(3, 9)),
        "desk": Grid(base=NARROW, values=(5, 13, 29)),  # the last covers a 14 x 14 image from every pixel
        "paper": Grid(base=replace(PAPER, depth=5), values=(5, 7, 9, 13, 17, 25, 29, 57)),
    }
    rules = (
        Rule(
            claim="id.fig9.filter_size",
            effect=value("constant", at=57) > value("constant", at=5),
            reduced=at_end("constant", end="last") > at_end("constant", end="first"),
            null=NoNull("to be written"),
            change=Change("size 57 was judged though 29 was the largest that ran"),
        ),
    )
