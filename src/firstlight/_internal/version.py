"""The package version, which is part of the name of every stored run."""

__version__ = "0.2.0"
