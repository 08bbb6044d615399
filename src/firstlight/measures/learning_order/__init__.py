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
    from firstlight.measures.learning_order.compact_representation import (
        CompactRecorder,
        ComponentConvergence,
        activation_free_representation,
        compact_representation,
        component_convergence,
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
    from firstlight.measures.learning_order.gaussian_copies import accuracy_by_moments, gaussian_copies

lazy_exports(__name__)
