"""Figures of the papers, each a function of its own: one file per paper, `registry` for what they share."""
