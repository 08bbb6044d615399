"""What a network learned, measured without knowing who trained it."""

from firstlight.measures.energy_profile import energy_profile

__all__ = ["energy_profile"]
