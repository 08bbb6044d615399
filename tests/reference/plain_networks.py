"""Networks as the papers write them, loop by loop."""

import torch


def linear_cnn_score(x, filters, readout, *, padding, stride):
    """Mean over positions of the read-out of every filter at that position."""
    n, c, h, w = x.shape
    k = filters.shape[-1]
    padded = torch.zeros(n, c, h + 2 * padding, w + 2 * padding, dtype=x.dtype)
    padded[:, :, padding : padding + h, padding : padding + w] = x
    scores = torch.zeros(n, dtype=x.dtype)
    for i in range(n):
        values = []
        for row in range(0, h + 2 * padding - k + 1, stride):
            for col in range(0, w + 2 * padding - k + 1, stride):
                patch = padded[i, :, row : row + k, col : col + k]
                values.append(sum(a * (f * patch).sum() for a, f in zip(readout, filters, strict=True)))
        scores[i] = sum(values) / len(values)
    return scores


def two_layer_relu_score(x, weight, readout):
    """Sum over units of the read-out times the rectified projection."""
    scores = torch.zeros(len(x), dtype=x.dtype)
    for i, row in enumerate(x):
        for a, w in zip(readout, weight, strict=True):
            scores[i] += a * max(float(w @ row), 0.0)
    return scores
