"""How far a network moved from its linearisation: tangent kernels and weight changes."""

from firstlight.measures.linearized.layer_change import (
    LayerChange,
    layer_changes,
)
from firstlight.measures.linearized.ntk import (
    jacobian,
    ntk_gram,
)
from firstlight.measures.linearized.ntk_summary import (
    LabelAlignment,
    NtkChange,
    NtkSpectrum,
    effective_rank,
    label_alignment,
    ntk_change,
    ntk_spectrum,
)
from firstlight.measures.linearized.solution import (
    LinearSolution,
    solve_linearized,
)

__all__ = [
    "LabelAlignment",
    "LayerChange",
    "LinearSolution",
    "NtkChange",
    "NtkSpectrum",
    "effective_rank",
    "jacobian",
    "label_alignment",
    "layer_changes",
    "ntk_change",
    "ntk_gram",
    "ntk_spectrum",
    "solve_linearized",
]
