"""Study of the size of the training image."""

from dataclasses import replace

from reproduce.catalogue import study
from reproduce.studies.identity.common import (
    DESK,
    NIGHT,
    SMOKE,
    Grid,
    IdentitySweep,
    constant_on_unseen,
    mean_constant,
    with_initial,
)


@study("id.fig8.image_size")
class ImageSize(IdentitySweep):
    """Do smaller training images push a network of fixed depth to the constant map?"""

    field, axis = "image_size", "side of the training image (pixels)"
    readings = with_initial({"constant": mean_constant, "constant on unseen": constant_on_unseen})
    scales = {
        "smoke": Grid(base=replace(SMOKE, depth=2, width=4), values=(6, 8, 10)),
        "desk": Grid(base=replace(DESK, depth=14, width=16), values=(10, 14, 20, 28)),
        "night": Grid(base=replace(NIGHT, depth=14), values=(7, 14, 21, 28)),
    }
