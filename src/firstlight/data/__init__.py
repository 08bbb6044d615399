"""Data sets, one file each, and interventions on them."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.data.catalogue import available, describe, fetch, load, load_splits
    from firstlight.data.conversion import as_images
    from firstlight.data.images import ImageData

lazy_exports(__name__)
