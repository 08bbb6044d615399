"""Readers of the standard files in which image data sets are handed around."""
