"""Damaged and hostile files for every public reader, and a judge of how each of them ends."""
