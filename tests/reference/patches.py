"""Patches and their moments by plain loops, in NumPy: shares no code with the package."""

import numpy as np


def naive_patches(images, size, stride, padding, dilation):
    """All patches as an array (n, positions, c * kh * kw)."""
    n, c, h, w = images.shape
    padded = np.zeros((n, c, h + 2 * padding[0], w + 2 * padding[1]))
    padded[:, :, padding[0] : padding[0] + h, padding[1] : padding[1] + w] = images
    rows = range(0, padded.shape[2] - dilation[0] * (size[0] - 1), stride[0])
    columns = range(0, padded.shape[3] - dilation[1] * (size[1] - 1), stride[1])
    found = []
    for image in padded:
        for top in rows:
            for left in columns:
                patch = [
                    image[channel, top + i * dilation[0], left + j * dilation[1]]
                    for channel in range(c)
                    for i in range(size[0])
                    for j in range(size[1])
                ]
                found.append(patch)
    return np.array(found).reshape(n, len(rows) * len(columns), -1)


def naive_covariance(vectors):
    """Mean outer product of the rows, about their mean if asked."""
    mean = vectors.mean(axis=0)
    total = np.zeros((vectors.shape[1], vectors.shape[1]))
    for vector in vectors:
        total += np.outer(vector - mean, vector - mean)
    return mean, total / len(vectors)
