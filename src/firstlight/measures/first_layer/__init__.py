"""What the first layer learned: its energy along the principal components of the patches."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.measures.first_layer.consistency import Consistency, agreement, consistency
    from firstlight.measures.first_layer.energy_profile import (
        Profile,
        band_energy,
        energy_profile,
        patch_basis,
        profile,
        profile_from,
        profiles_over_time,
    )
    from firstlight.measures.first_layer.first_convolution import Convolution, first_convolution

lazy_exports(__name__)
