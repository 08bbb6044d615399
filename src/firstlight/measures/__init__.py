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

# identity task
from firstlight.measures.identity_score import (
    EdgeScore,
    IdentityScore,
    Response,
    edge_score,
    identity_score,
    image_outputs,
    response,
    similarities,
    sobel_magnitude,
    verdict,
)
from firstlight.measures.label_correlation import label_correlation
from firstlight.measures.layer_images import (
    LayerImages,
    SizeResponse,
    layer_images,
    output_variation,
    resized,
    size_response,
    top_singular_image,
)
from firstlight.measures.layer_probe import LayerProbe, averaging_votes, class_sums, layer_probe
from firstlight.measures.stages import (
    stage_outputs,
    stages,
    upper_outputs,
    weight_changes,
    with_circular_padding,
)

__all__ = [
    "Agreement",
    "Consistency",
    "Convolution",
    "EdgeScore",
    "FrequencyReading",
    "IdentityScore",
    "LayerImages",
    "LayerProbe",
    "Profile",
    "Response",
    "SizeResponse",
    "agreement",
    "averaging_votes",
    "band_energy",
    "class_sums",
    "component_frequencies",
    "consistency",
    "edge_score",
    "energy_profile",
    "filter_frequencies",
    "first_convolution",
    "frequency_reading",
    "identity_score",
    "image_outputs",
    "label_correlation",
    "layer_images",
    "layer_probe",
    "output_variation",
    "patch_basis",
    "profile_in",
    "profile_of",
    "profiles_over_time",
    "resized",
    "response",
    "similarities",
    "size_response",
    "sobel_magnitude",
    "stage_outputs",
    "stages",
    "top_singular_image",
    "upper_outputs",
    "verdict",
    "weight_changes",
    "windowed",
    "with_circular_padding",
]
