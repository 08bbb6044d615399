"""Correlations by plain loops over Python numbers."""

import math


def naive_pearson(a, b):
    mean_a, mean_b = math.fsum(a) / len(a), math.fsum(b) / len(b)
    top = math.fsum((x - mean_a) * (y - mean_b) for x, y in zip(a, b, strict=True))
    size_a = math.fsum((x - mean_a) ** 2 for x in a)
    size_b = math.fsum((y - mean_b) ** 2 for y in b)
    return top / math.sqrt(size_a * size_b)


def naive_ranks(values):
    return [
        sum(other < value for other in values) + (1 + sum(other == value for other in values)) / 2
        for value in values
    ]


def naive_spearman(a, b):
    return naive_pearson(naive_ranks(a), naive_ranks(b))


def naive_cosine(a, b):
    top = math.fsum(x * y for x, y in zip(a, b, strict=True))
    return top / math.sqrt(math.fsum(x * x for x in a) * math.fsum(y * y for y in b))
