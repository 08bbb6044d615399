"""Architectures of the five papers, one file per family."""
