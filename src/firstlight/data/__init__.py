"""Data sets, one file each, and interventions on them."""
