"""Questions that need a training, a theory and a measure together."""
