"""What later papers state, judged like the five: every number beside its null."""
