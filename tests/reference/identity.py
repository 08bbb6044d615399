"""The measures of the identity task as their definitions read, loop by loop."""

import math


def similarity(a, b, *, centred):
    """Cosine or Pearson of two lists of numbers; 0 where undefined."""
    a, b = [float(v) for v in a], [float(v) for v in b]
    if centred:
        a = [v - sum(a) / len(a) for v in a]
        b = [v - sum(b) / len(b) for v in b]
    top = sum(x * y for x, y in zip(a, b, strict=True))
    size = math.sqrt(sum(x * x for x in a)) * math.sqrt(sum(y * y for y in b))
    return top / size if size > 1e-9 else 0.0


def voting_table(test, train, labels, n_classes):
    """Every training example votes for its class with its inner product."""
    table = [[0.0] * n_classes for _ in test]
    for i, x in enumerate(test):
        for z, label in zip(train, labels, strict=True):
            table[i][label] += sum(float(p) * float(q) for p, q in zip(x, z, strict=True))
    return table


def power_iteration_image(activation, rounds=2000):
    """Top right singular vector of (c, h w), by repeated multiplication."""
    matrix = activation.flatten(1)
    vector = matrix.sum(0) + matrix[0] * 0.3 + 1e-3
    for _ in range(rounds):
        vector = matrix.T @ (matrix @ vector)
        vector = vector / vector.norm()
    return vector.reshape(activation.shape[1:])


def sobel(image):
    """Gradient magnitude of a matrix whose border pixels are repeated outward."""
    h, w = image.shape

    def at(i, j):
        return float(image[min(max(i, 0), h - 1), min(max(j, 0), w - 1)])

    rows = []
    for i in range(h):
        row = []
        for j in range(w):
            across = sum(k * (at(i + d, j + 1) - at(i + d, j - 1)) for d, k in ((-1, 1), (0, 2), (1, 1)))
            down = sum(k * (at(i + 1, j + d) - at(i - 1, j + d)) for d, k in ((-1, 1), (0, 2), (1, 1)))
            row.append(math.hypot(across, down))
        rows.append(row)
    return rows
