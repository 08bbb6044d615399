"""Keras' convolution and batch norm on channels-last images, loop by loop."""

import math

import numpy as np


def convolution(x, kernel, bias, *, stride):
    """Unpadded convolution: x is n h w c, kernel is height width input output."""
    n, h, w, _ = x.shape
    kh, kw, _, outputs = kernel.shape
    rows, cols = range(0, h - kh + 1, stride), range(0, w - kw + 1, stride)
    out = np.zeros((n, len(rows), len(cols), outputs))
    for i in range(n):
        for r, row in enumerate(rows):
            for c, col in enumerate(cols):
                for o in range(outputs):
                    patch = x[i, row : row + kh, col : col + kw, :]
                    out[i, r, c, o] = (patch * kernel[:, :, :, o]).sum() + bias[o]
    return out


def batch_norm(x, gamma, beta, mean, variance, *, epsilon):
    """Normalise every channel with the moving statistics."""
    out = np.zeros_like(x)
    for c in range(x.shape[-1]):
        out[..., c] = gamma[c] * (x[..., c] - mean[c]) / math.sqrt(variance[c] + epsilon) + beta[c]
    return out
