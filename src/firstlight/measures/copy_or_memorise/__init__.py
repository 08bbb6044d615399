"""Whether a network copies its input or repeats what it was trained on."""

from firstlight.measures.copy_or_memorise.identity_score import (
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
from firstlight.measures.copy_or_memorise.layer_images import (
    LayerImages,
    SizeResponse,
    layer_images,
    size_response,
)
from firstlight.measures.layers.layer_probe import (
    LayerProbe,
    averaging_votes,
    class_sums,
    layer_probe,
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
    "response",
    "similarities",
    "size_response",
]
