"""Closed forms that the papers prove, as functions of time."""
