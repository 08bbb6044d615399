"""Memorise or generalise: the identity task from one example."""
