"""Energy profiles by their definition: loops over filters, components and pixels."""

import cmath
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


def naive_power(filters, frequency):
    """Squared modulus of the Fourier transform at one frequency, summed over filters and channels."""
    total = 0.0
    for channels in filters:
        for pixels in channels:
            value = sum(
                pixel * cmath.exp(-2j * math.pi * (frequency[0] * row + frequency[1] * column))
                for row, line in enumerate(pixels)
                for column, pixel in enumerate(line)
            )
            total += abs(value) ** 2
    return total


def naive_band_energy(filters, edges, grid):
    """Power summed over a grid of frequencies, band by band, and the largest power on the grid."""
    bands, largest = [0.0] * (len(edges) + 1), 0.0
    for i in range(grid):
        for j in range(grid):
            frequency = ((i + 0.5) / grid - 0.5, (j + 0.5) / grid - 0.5)
            power = naive_power(filters, frequency)
            bands[sum(math.hypot(*frequency) >= edge for edge in edges)] += power / grid**2
            largest = max(largest, power)
    return bands, largest
