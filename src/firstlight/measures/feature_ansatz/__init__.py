"""Whether a layer's filters point where the network's gradients point."""

from firstlight.measures.feature_ansatz.ansatz import (
    Ansatz,
    AnsatzRow,
    ansatz,
    ansatz_from,
)
from firstlight.measures.feature_ansatz.feature_matrix import (
    feature_matrix,
)
from firstlight.measures.feature_ansatz.filter_faults import (
    FilterFaults,
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

__all__ = [
    "Ansatz",
    "AnsatzRow",
    "Eigenvectors",
    "FilterFaults",
    "LayerGradients",
    "LayerMaps",
    "PatchGradients",
    "ansatz",
    "ansatz_from",
    "feature_matrix",
    "filter_faults",
    "layer_maps",
    "patch_gradients",
    "patch_operator_map",
    "top_eigenvectors",
]
