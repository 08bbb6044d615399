"""Whether a network copies its input or repeats what it was trained on."""
