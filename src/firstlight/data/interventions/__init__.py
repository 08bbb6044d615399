"""Changes of a data set that a theory predicts the effect of.

Plain functions where nothing is fitted; otherwise a frozen transform with ``fit(train)`` and
``transform(data)`` for any split. Each leaves a note in ``meta["interventions"]``.
"""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.data.interventions.labels import (
        PatchProjectionLabels,
        SeparatorLabels,
        random_labels,
        shuffled_labels,
    )
    from firstlight.data.interventions.normalisation import (
        MNIST_NORMALISATION,
        ChannelNormalisation,
    )
    from firstlight.data.interventions.placement import noise_frame, random_shifts, shifted
    from firstlight.data.interventions.principal_components import (
        Amplification,
        ComponentProjection,
        ZCAWhitening,
    )

lazy_exports(__name__)
