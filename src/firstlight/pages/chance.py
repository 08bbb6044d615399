"""What chance alone would give, for sentences that count."""

from scipy.stats import beta, binom

LEVEL = 0.05  # share of cases in which chance alone may pass for more


def beyond_chance(count: int, *, n: int, p: float) -> bool:
    """Whether `count` of `n` is more than chance gives in 95 % of cases, if each has probability `p`.

    Looking at many layers, some always stand out: one number counts only together with all others.

    Examples
    --------
    >>> beyond_chance(3, n=4, p=1 / 9), beyond_chance(19, n=186, p=1 / 9)
    (True, False)
    """
    return n > 0 and float(binom.sf(count - 1, n, p)) <= LEVEL


def chance_of_ignoring_flat(shape: tuple[int, ...], *, share: float) -> float:
    """Probability that a random pattern has less than `share` of its norm along constant channels.

    The squared share of a random direction in d dimensions along c of them follows a beta distribution.

    Parameters
    ----------
    shape : tuple of int
        Channels, height and width of the pattern.
    share : float
        Between 0 and 1.

    Examples
    --------
    >>> [round(chance_of_ignoring_flat(shape, share=0.1), 2) for shape in ((1, 3, 3), (3, 11, 11))]
    [0.22, 0.69]
    """
    channels, size = shape[0], 1
    for side in shape:
        size *= side
    if size == channels:  # nothing but constant patterns
        return 0.0
    return float(beta.cdf(share**2, channels / 2, (size - channels) / 2))
