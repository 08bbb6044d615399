"""First-layer energy profiles and the theory of the linear CNN."""
