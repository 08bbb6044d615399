"""Questions that need a training, a theory and a measure together."""

from firstlight.insights.explain_profile import ProfileExplanation, explain_profile

# identity task
from firstlight.insights.identity_bias import IdentityBias, identity_bias
from firstlight.insights.identity_flip import Flip, flip_point
from firstlight.insights.identity_images import IdentityImages, identity_images
from firstlight.insights.identity_task import (
    Findings,
    IdentityRun,
    IdentityTask,
    run_identity_task,
    run_identity_tasks,
)
from firstlight.insights.identity_tour import IdentityTour, run_identity_tour
from firstlight.insights.tour import FirstLayerTour, Tour, run_tour

__all__ = [
    "Findings",
    "FirstLayerTour",
    "Flip",
    "IdentityBias",
    "IdentityImages",
    "IdentityRun",
    "IdentityTask",
    "IdentityTour",
    "ProfileExplanation",
    "Tour",
    "explain_profile",
    "flip_point",
    "identity_bias",
    "identity_images",
    "run_identity_task",
    "run_identity_tasks",
    "run_identity_tour",
    "run_tour",
]
