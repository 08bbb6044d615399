"""What each layer receives, keeps and separates."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.measures.layers.activations import activations
    from firstlight.measures.layers.class_variation import class_variation

lazy_exports(__name__)
