"""Gradient descent on least squares, one step after another."""

import torch


def iterate(patches, y, *, rate, steps, initial=None):
    """Minimise ``1/2 |K w - y|^2`` by full-batch gradient descent from `initial` or zero."""
    w = torch.zeros(patches.shape[1], dtype=patches.dtype) if initial is None else initial.clone()
    for _ in range(steps):
        w = w - rate * patches.T @ (patches @ w - y)
    return w
