"""Energy profiles by their definition: loops over filters, components and pixels."""

import math


def naive_profile(filters, basis):
    """Root of the summed squared inner products, one component after another."""
    energies = []
    for i in range(len(basis[0])):
        total = 0.0
        for row in filters:
            inner = sum(row[j] * basis[j][i] for j in range(len(row)))
            total += inner * inner
        energies.append(math.sqrt(total))
    return energies


def naive_label_correlation(coordinates, labels, n_classes):
    """Pearson correlation of each column with membership in each class, by sums."""
    n = len(coordinates)
    table = []
    for c in range(n_classes):
        member = [1.0 if label == c else 0.0 for label in labels]
        row = []
        for j in range(len(coordinates[0])):
            column = [coordinates[i][j] for i in range(n)]
            ma, mb = sum(member) / n, sum(column) / n
            cov = sum((a - ma) * (b - mb) for a, b in zip(member, column, strict=True))
            va = sum((a - ma) ** 2 for a in member)
            vb = sum((b - mb) ** 2 for b in column)
            row.append(cov / math.sqrt(va * vb))
        table.append(row)
    return table
