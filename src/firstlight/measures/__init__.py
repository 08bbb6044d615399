"""What a network learned, measured without knowing who trained it."""

from firstlight.measures.ansatz import Ansatz, AnsatzRow, ansatz, ansatz_of
from firstlight.measures.consistency import Agreement, Consistency, agreement, consistency
from firstlight.measures.energy_profile import (
    Profile,
    energy_profile,
    patch_basis,
    profile_in,
    profile_of,
    profiles_over_time,
    windowed,
)
from firstlight.measures.feature_matrix import feature_matrix
from firstlight.measures.filter_faults import FilterFaults, filter_faults
from firstlight.measures.first_convolution import Convolution, first_convolution
from firstlight.measures.frequency import (
    FrequencyReading,
    band_energy,
    component_frequencies,
    filter_frequencies,
    frequency_reading,
)
from firstlight.measures.label_correlation import label_correlation
from firstlight.measures.layer_change import LayerChange, layer_changes
from firstlight.measures.patch_agop import LayerGradients, PatchAgop, patch_agop
from firstlight.measures.patch_operator import (
    Eigenvectors,
    LayerMaps,
    constant_share,
    layer_maps,
    patch_operator_map,
    sobel_map,
    top_eigenvectors,
)

__all__ = [
    "Agreement",
    "Ansatz",
    "AnsatzRow",
    "Consistency",
    "Convolution",
    "Eigenvectors",
    "FilterFaults",
    "FrequencyReading",
    "LayerChange",
    "LayerGradients",
    "LayerMaps",
    "PatchAgop",
    "Profile",
    "agreement",
    "ansatz",
    "ansatz_of",
    "band_energy",
    "component_frequencies",
    "consistency",
    "constant_share",
    "energy_profile",
    "feature_matrix",
    "filter_faults",
    "filter_frequencies",
    "first_convolution",
    "frequency_reading",
    "label_correlation",
    "layer_changes",
    "layer_maps",
    "patch_agop",
    "patch_basis",
    "patch_operator_map",
    "profile_in",
    "profile_of",
    "profiles_over_time",
    "sobel_map",
    "top_eigenvectors",
    "windowed",
]
