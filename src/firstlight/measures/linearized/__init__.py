"""How far a network moved from its linearisation: tangent kernels and weight changes."""
