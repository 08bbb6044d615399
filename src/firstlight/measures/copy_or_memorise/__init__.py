"""Whether a network copies its input or repeats what it was trained on."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
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
        layer_images,
        size_response,
    )

lazy_exports(__name__)
