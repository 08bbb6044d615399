"""What a network learned, measured without knowing who trained it."""
