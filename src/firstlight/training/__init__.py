"""One plain training loop, ensembles and checkpoints."""
