"""Which examples and which principal components a network learns first."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.measures.learning_order.accessibility import (
        AccessibilityCallback,
        AccessibilityHistory,
        AccessibilityRecorder,
        RecordAccessibility,
        history_of,
    )
    from firstlight.measures.learning_order.constancy import (
        Constancy,
        OrderCorrelation,
        learning_order_constancy,
        order_correlation,
        score_agreement,
    )
    from firstlight.measures.learning_order.critical_component import (
        ComponentClassifier,
        critical_component,
    )
    from firstlight.measures.learning_order.discriminability import (
        discriminabilities,
        discriminability,
        penultimate_features,
    )

lazy_exports(__name__)
