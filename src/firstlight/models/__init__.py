"""Architectures of the five papers, one file per family, and how their weights are read."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.models.building import (
        ModelSpec,
        available,
        build,
        options,
        parameter_count,
        register_model,
    )
    from firstlight.models.checkpoints import WeightsMismatch, load_weights, save_weights
    from firstlight.models.initialisers import initialise
    from firstlight.models.linearized import LinearizedModel, linearize
    from firstlight.models.loading import load_model

lazy_exports(__name__)
