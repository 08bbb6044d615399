"""What a network learned, measured without knowing who trained it."""

# first layer
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
from firstlight.measures.first_convolution import Convolution, first_convolution
from firstlight.measures.frequency import (
    FrequencyReading,
    band_energy,
    component_frequencies,
    filter_frequencies,
    frequency_reading,
)
from firstlight.measures.label_correlation import label_correlation

__all__ = [
    "Agreement",
    "Consistency",
    "Convolution",
    "FrequencyReading",
    "Profile",
    "agreement",
    "band_energy",
    "component_frequencies",
    "consistency",
    "energy_profile",
    "filter_frequencies",
    "first_convolution",
    "frequency_reading",
    "label_correlation",
    "patch_basis",
    "profile_in",
    "profile_of",
    "profiles_over_time",
    "windowed",
]
