"""What a network learned, measured without knowing who trained it."""

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

__all__ = [
    "Agreement",
    "Consistency",
    "Convolution",
    "FilterFaults",
    "FrequencyReading",
    "LayerChange",
    "LayerGradients",
    "PatchAgop",
    "Profile",
    "agreement",
    "band_energy",
    "component_frequencies",
    "consistency",
    "energy_profile",
    "feature_matrix",
    "filter_faults",
    "filter_frequencies",
    "first_convolution",
    "frequency_reading",
    "label_correlation",
    "layer_changes",
    "patch_agop",
    "patch_basis",
    "profile_in",
    "profile_of",
    "profiles_over_time",
    "windowed",
]
