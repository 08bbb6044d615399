"""How far a network moved from its linearisation: tangent kernels and weight changes."""

from typing import TYPE_CHECKING

from firstlight._internal.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from firstlight.measures.linearized.exact_solution import (
        IterativeSolution,
        LinearSolution,
        solve_linearized,
        solve_linearized_by_steps,
    )
    from firstlight.measures.linearized.richness import richness
    from firstlight.measures.linearized.tangent_kernel import jacobian, ntk_gram
    from firstlight.measures.linearized.tangent_kernel_summary import (
        LabelAlignment,
        NtkChange,
        effective_rank,
        label_alignment,
        ntk_change,
    )
    from firstlight.measures.linearized.weight_change import LayerChange, layer_changes

lazy_exports(__name__)
