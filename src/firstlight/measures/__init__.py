"""What a network learned, measured without knowing who trained it."""

# learning order
from firstlight.measures.accessibility import (
    AccessibilityCallback,
    AccessibilityHistory,
    AccessibilityRecorder,
    RecordAccessibility,
    history_of,
)
from firstlight.measures.compact_representation import (
    CompactRecorder,
    ComponentConvergence,
    activation_free_representation,
    compact_representation,
    component_convergence,
)
from firstlight.measures.consistency import Agreement, Consistency, agreement, consistency
from firstlight.measures.critical_component import (
    ComponentClassifier,
    CriticalComponents,
    critical_component,
)
from firstlight.measures.critical_frequency import critical_frequency
from firstlight.measures.discriminability import discriminabilities, discriminability, penultimate_features

# first layer
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
from firstlight.measures.learning_order import (
    Constancy,
    OrderCorrelation,
    binned_correlation,
    fastest_share,
    learning_order_constancy,
    matched,
    order_correlation,
    running_constancy,
    smoothed_correlation,
)

__all__ = [
    "AccessibilityCallback",
    "AccessibilityHistory",
    "AccessibilityRecorder",
    "Agreement",
    "CompactRecorder",
    "ComponentClassifier",
    "ComponentConvergence",
    "Consistency",
    "Constancy",
    "Convolution",
    "CriticalComponents",
    "FrequencyReading",
    "OrderCorrelation",
    "Profile",
    "RecordAccessibility",
    "activation_free_representation",
    "agreement",
    "band_energy",
    "binned_correlation",
    "compact_representation",
    "component_convergence",
    "component_frequencies",
    "consistency",
    "critical_component",
    "critical_frequency",
    "discriminabilities",
    "discriminability",
    "energy_profile",
    "fastest_share",
    "filter_frequencies",
    "first_convolution",
    "frequency_reading",
    "history_of",
    "label_correlation",
    "learning_order_constancy",
    "matched",
    "order_correlation",
    "patch_basis",
    "penultimate_features",
    "profile_in",
    "profile_of",
    "profiles_over_time",
    "running_constancy",
    "smoothed_correlation",
    "windowed",
]
