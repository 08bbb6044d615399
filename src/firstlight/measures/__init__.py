"""What a network learned, measured without knowing who trained it."""

from firstlight.measures.accessibility import (
    AccessibilityCallback,
    AccessibilityHistory,
    AccessibilityRecorder,
    RecordAccessibility,
    history_of,
)
from firstlight.measures.ansatz import (
    Ansatz,
    AnsatzRow,
    ansatz,
    ansatz_of,
)
from firstlight.measures.compact_representation import (
    CompactRecorder,
    ComponentConvergence,
    activation_free_representation,
    compact_representation,
    component_convergence,
)
from firstlight.measures.consistency import (
    Agreement,
    Consistency,
    agreement,
    consistency,
)
from firstlight.measures.critical_component import (
    ComponentClassifier,
    CriticalComponents,
    critical_component,
)
from firstlight.measures.critical_frequency import critical_frequency
from firstlight.measures.discriminability import (
    discriminabilities,
    discriminability,
    penultimate_features,
)
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
from firstlight.measures.filter_faults import (
    FilterFaults,
    filter_faults,
)
from firstlight.measures.first_convolution import (
    Convolution,
    first_convolution,
)
from firstlight.measures.frequency import (
    FrequencyReading,
    band_energy,
    component_frequencies,
    filter_frequencies,
    frequency_reading,
)
from firstlight.measures.identity_score import (
    EdgeScore,
    IdentityScore,
    Response,
    edge_score,
    identity_score,
    image_outputs,
    response,
    similarities,
    verdict,
)
from firstlight.measures.label_correlation import label_correlation
from firstlight.measures.layer_change import (
    LayerChange,
    layer_changes,
)
from firstlight.measures.layer_images import (
    LayerImages,
    SizeResponse,
    layer_images,
    output_variation,
    resized,
    size_response,
    top_singular_image,
)
from firstlight.measures.layer_probe import (
    LayerProbe,
    averaging_votes,
    class_sums,
    layer_probe,
)
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
from firstlight.measures.ntk import (
    jacobian,
    layer_ntk_grams,
    ntk_gram,
)
from firstlight.measures.ntk_summary import (
    LabelAlignment,
    NtkChange,
    NtkSpectrum,
    effective_rank,
    label_alignment,
    ntk_change,
    ntk_spectrum,
)
from firstlight.measures.patch_agop import (
    LayerGradients,
    PatchAgop,
    patch_agop,
)
from firstlight.measures.patch_operator import (
    Eigenvectors,
    LayerMaps,
    constant_share,
    layer_maps,
    patch_operator_map,
    sobel_map,
    top_eigenvectors,
)
from firstlight.measures.stages import (
    stage_outputs,
    stages,
    upper_outputs,
    weight_changes,
    with_circular_padding,
)

__all__ = [
    "AccessibilityCallback",
    "AccessibilityHistory",
    "AccessibilityRecorder",
    "Agreement",
    "Ansatz",
    "AnsatzRow",
    "CompactRecorder",
    "ComponentClassifier",
    "ComponentConvergence",
    "Consistency",
    "Constancy",
    "Convolution",
    "CriticalComponents",
    "EdgeScore",
    "Eigenvectors",
    "FilterFaults",
    "FrequencyReading",
    "IdentityScore",
    "LabelAlignment",
    "LayerChange",
    "LayerGradients",
    "LayerImages",
    "LayerMaps",
    "LayerProbe",
    "NtkChange",
    "NtkSpectrum",
    "OrderCorrelation",
    "PatchAgop",
    "Profile",
    "RecordAccessibility",
    "Response",
    "SizeResponse",
    "activation_free_representation",
    "agreement",
    "ansatz",
    "ansatz_of",
    "averaging_votes",
    "band_energy",
    "binned_correlation",
    "class_sums",
    "compact_representation",
    "component_convergence",
    "component_frequencies",
    "consistency",
    "constant_share",
    "critical_component",
    "critical_frequency",
    "discriminabilities",
    "discriminability",
    "edge_score",
    "effective_rank",
    "energy_profile",
    "fastest_share",
    "feature_matrix",
    "filter_faults",
    "filter_frequencies",
    "first_convolution",
    "frequency_reading",
    "history_of",
    "identity_score",
    "image_outputs",
    "jacobian",
    "label_alignment",
    "label_correlation",
    "layer_changes",
    "layer_images",
    "layer_maps",
    "layer_ntk_grams",
    "layer_probe",
    "learning_order_constancy",
    "matched",
    "ntk_change",
    "ntk_gram",
    "ntk_spectrum",
    "order_correlation",
    "output_variation",
    "patch_agop",
    "patch_basis",
    "patch_operator_map",
    "penultimate_features",
    "profile_in",
    "profile_of",
    "profiles_over_time",
    "resized",
    "response",
    "running_constancy",
    "similarities",
    "size_response",
    "smoothed_correlation",
    "sobel_map",
    "stage_outputs",
    "stages",
    "top_eigenvectors",
    "top_singular_image",
    "upper_outputs",
    "verdict",
    "weight_changes",
    "windowed",
    "with_circular_padding",
]
