"""Closed forms that the papers prove, as functions of time."""

from firstlight.theory import first_layer, identity, least_squares

__all__ = ["first_layer", "identity", "least_squares"]
