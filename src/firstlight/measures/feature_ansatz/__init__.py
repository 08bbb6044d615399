"""Whether a layer's filters point where the network's gradients point."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.measures.feature_ansatz.ansatz import (
        Ansatz,
        AnsatzRow,
        ansatz,
        ansatz_from,
        centred_ansatz,
        feature_matrix,
    )
    from firstlight.measures.feature_ansatz.ansatz_exponent import ansatz_exponent
    from firstlight.measures.feature_ansatz.filter_activity import (
        FilterFaults,
        filter_activity,
        filter_faults,
    )
    from firstlight.measures.feature_ansatz.layer_maps import (
        Eigenvectors,
        LayerMaps,
        layer_maps,
        patch_operator_map,
        top_eigenvectors,
    )
    from firstlight.measures.feature_ansatz.patch_gradients import (
        LayerGradients,
        PatchGradients,
        patch_gradients,
    )

lazy_exports(__name__)
