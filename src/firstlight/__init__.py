"""firstlight shows what a convolutional network learns, in what order, and why."""

from firstlight.core.version import __version__

__all__ = ["__version__"]
