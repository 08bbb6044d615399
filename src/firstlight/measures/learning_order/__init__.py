"""Which examples and which principal components a network learns first."""
