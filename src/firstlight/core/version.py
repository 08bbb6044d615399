"""The package version, and the version of the numbers it computes."""

__version__ = "0.1.0"

NUMERICS = 1
"""Raise this when a change in shared code alters the numbers a stored run would give.

Stored runs carry it in their name, so old results are never mistaken for new ones, while a change of
wording or layout does not throw away hours of training.
"""
