"""Errors, seeds, shapes, registries, progress and the parallel map. Imports none of ours."""
