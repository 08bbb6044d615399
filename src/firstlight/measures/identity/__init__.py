"""Whether a network copies its input or repeats what it was trained on."""

from firstlight.measures.identity.identity_score import (
    EdgeScore,
    IdentityScore,
    Response,
    behaviour,
    edge_score,
    identity_score,
    image_outputs,
    response,
    similarities,
)
from firstlight.measures.identity.layer_images import (
    LayerImages,
    SizeResponse,
    layer_images,
    output_variation,
    resized,
    size_response,
    top_singular_image,
)
from firstlight.measures.identity.layer_probe import (
    LayerProbe,
    averaging_votes,
    class_sums,
    layer_probe,
)
from firstlight.measures.identity.stages import (
    stage_outputs,
    stages,
    upper_outputs,
    weight_changes,
    with_circular_padding,
)

__all__ = [
    "EdgeScore",
    "IdentityScore",
    "LayerImages",
    "LayerProbe",
    "Response",
    "SizeResponse",
    "averaging_votes",
    "behaviour",
    "class_sums",
    "edge_score",
    "identity_score",
    "image_outputs",
    "layer_images",
    "layer_probe",
    "output_variation",
    "resized",
    "response",
    "similarities",
    "size_response",
    "stage_outputs",
    "stages",
    "top_singular_image",
    "upper_outputs",
    "weight_changes",
    "with_circular_padding",
]
