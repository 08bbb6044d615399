"""Questions that need a training, a theory and a measure together."""

from firstlight.insights.comparison import compare
from firstlight.insights.explain_profile import (
    ProfileExplanation,
    explain_profile,
)
from firstlight.insights.feature_report import (
    FeatureReport,
    feature_report,
)
from firstlight.insights.findings import failures, finding_numbers
from firstlight.insights.fresh_initial import fresh_initial
from firstlight.insights.identity_bias import (
    IdentityBias,
    identity_bias,
)
from firstlight.insights.identity_flip import (
    Flip,
    flip_point,
)
from firstlight.insights.identity_images import (
    IdentityImages,
    identity_images,
)
from firstlight.insights.identity_task import (
    Findings,
    IdentityRun,
    IdentityTask,
    run_identity_task,
    run_identity_tasks,
)
from firstlight.insights.inspection import (
    Inspection,
    inspect,
)
from firstlight.insights.label_check import check_labels
from firstlight.insights.label_result import LabelCheck
from firstlight.insights.order_report import (
    OrderReport,
    Shown,
    label_suspicion,
    order_report,
    separation,
)
from firstlight.insights.regime import (
    Movement,
    RegimeResult,
    regime,
)
from firstlight.insights.watching import watch

__all__ = [
    "FeatureReport",
    "Findings",
    "Flip",
    "IdentityBias",
    "IdentityImages",
    "IdentityRun",
    "IdentityTask",
    "Inspection",
    "LabelCheck",
    "Movement",
    "OrderReport",
    "ProfileExplanation",
    "RegimeResult",
    "Shown",
    "check_labels",
    "compare",
    "explain_profile",
    "failures",
    "feature_report",
    "finding_numbers",
    "flip_point",
    "fresh_initial",
    "identity_bias",
    "identity_images",
    "inspect",
    "label_suspicion",
    "order_report",
    "regime",
    "run_identity_task",
    "run_identity_tasks",
    "separation",
    "watch",
]
