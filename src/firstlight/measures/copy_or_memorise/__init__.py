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

lazy_exports(__name__)
