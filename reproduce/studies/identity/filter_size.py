"""Study of the size of the filters."""

from dataclasses import replace

from reproduce.catalogue import study
from reproduce.studies.identity.common import (
    DESK,
    SMOKE,
    Grid,
    IdentitySweep,
    mean_constant,
    mean_identity,
    with_initial,
)

NARROW = replace(DESK, depth=3, width=8, initialiser="xavier_normal", steps=800, stop_below=1e-4)


@study("id.fig9.filter_size")
class FilterSize(IdentitySweep):
    """Do filters that cover the image favour the constant map?"""

    field, axis = "kernel", "side of the filters"
    readings = with_initial({"constant": mean_constant, "identity": mean_identity})
    scales = {
        "smoke": Grid(base=replace(SMOKE, depth=3, width=2), values=(3, 9)),
        "desk": Grid(base=NARROW, values=(5, 13, 29)),  # the last covers a 14 x 14 image from every pixel
        "night": Grid(base=replace(NARROW, depth=5, width=16, image_size=28), values=(5, 13, 29, 57)),
    }
