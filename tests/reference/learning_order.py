"""Learning-order measures by their definitions, in plain loops."""

import math

import torch
from sklearn.linear_model import Ridge


def accessibility(correct):
    nets, epochs, n = correct.shape
    return torch.tensor(
        [
            sum(float(correct[i, e, x]) for i in range(nets) for e in range(epochs)) / (nets * epochs)
            for x in range(n)
        ],
        dtype=torch.float64,
    )


def forgetting(correct):
    """Times each network was right in one epoch and wrong in the next, example by example."""
    nets, epochs, n = correct.shape
    return torch.tensor(
        [
            [
                sum(bool(correct[i, e, x]) and not bool(correct[i, e + 1, x]) for e in range(epochs - 1))
                for x in range(n)
            ]
            for i in range(nets)
        ]
    )


def mean_margin(outputs, labels):
    """Mean over epochs of the label's score minus the largest other score; outputs by epoch."""
    means = []
    for i, label in enumerate(labels):
        margins = []
        for scores in outputs:
            row = [0.0, *scores[i].tolist()] if len(scores[i]) == 1 else scores[i].tolist()
            margins.append(row[label] - max(s for c, s in enumerate(row) if c != label))
        means.append(sum(margins) / len(margins))
    return torch.tensor(means, dtype=torch.float64)


def el2n(outputs, labels, epochs):
    """Mean over the chosen epochs, counted from 1, of the length of softmax minus one-hot."""
    means = []
    for i, label in enumerate(labels):
        lengths = []
        for epoch in epochs:
            scores = outputs[epoch - 1][i].tolist()
            row = [0.0, *scores] if len(scores) == 1 else scores
            total = sum(math.exp(s) for s in row)
            lengths.append(
                math.sqrt(sum((math.exp(s) / total - (c == label)) ** 2 for c, s in enumerate(row)))
            )
        means.append(sum(lengths) / len(lengths))
    return torch.tensor(means, dtype=torch.float64)


def discriminability(points, labels, k):
    found = []
    for i in range(len(points)):
        others = sorted(
            (math.dist(points[i].tolist(), points[j].tolist()), j) for j in range(len(points)) if j != i
        )
        found.append(sum(int(labels[j] == labels[i]) for _, j in others[:k]) / k)
    return torch.tensor(found, dtype=torch.float64)


def critical_component(train_x, train_y, x, y, n_classes, ridge):
    """One ridge classifier per number of components, each trained on its own."""
    mean = train_x.mean(0)
    centred = train_x - mean
    values, vectors = torch.linalg.eigh(centred.T @ centred / len(train_x))
    basis = vectors.flip(1)
    rank = int((values > 1e-12 * values.max()).sum())
    alpha = ridge * float(values.clamp(min=0).sum()) / train_x.shape[1] * len(train_x)
    targets = torch.nn.functional.one_hot(train_y, n_classes).double().numpy()
    right = []
    for p in range(1, rank + 1):
        model = Ridge(alpha=alpha, solver="svd").fit((centred @ basis[:, :p]).numpy(), targets)
        scores = torch.as_tensor(model.predict(((x - mean) @ basis[:, :p]).numpy()))
        right.append(scores.reshape(len(x), n_classes).argmax(1) == y)
    found = []
    for i in range(len(x)):
        critical = 0
        for p in range(rank, 0, -1):
            if not right[p - 1][i]:
                break
            critical = p
        found.append(critical)
    return torch.tensor(found)


def critical_frequency(z, v):
    phases = (0.0, 3.46, 5.08, 0.45, 2.10, 1.4, 5.36, 0.85, 5.9, 5.16)
    curve = lambda j: sum(math.sin(2 * math.pi * i * z + phases[i]) for i in range(j + 1))  # noqa: E731
    return [(v <= curve(j)) == (v <= curve(9)) for j in range(10)].index(True)


def neighbour_shares(features, labels, n_classes, k):
    """Share of each class among the k nearest other points by the angle of the centred features."""
    mean = [sum(column) / len(features) for column in zip(*features.tolist(), strict=True)]
    points = [[a - b for a, b in zip(row, mean, strict=True)] for row in features.tolist()]

    def cosine(a, b):
        return sum(u * v for u, v in zip(a, b, strict=True)) / math.sqrt(
            sum(u * u for u in a) * sum(v * v for v in b)
        )

    shares = []
    for i, point in enumerate(points):
        others = sorted((-cosine(point, other), j) for j, other in enumerate(points) if j != i)
        nearest = [int(labels[j]) for _, j in others[:k]]
        shares.append([nearest.count(c) / k for c in range(n_classes)])
    return torch.tensor(shares, dtype=torch.float64)
