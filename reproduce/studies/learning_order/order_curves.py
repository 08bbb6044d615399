"""Orders of learning as the papers' figures show them: smoothed, up to each epoch, and at matched accuracy."""

import torch
from jaxtyping import Float, Num
from torch import Tensor

from firstlight._internal.errors import InvalidInput
from firstlight.maths.correlation import pearson
from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from firstlight.measures.learning_order.constancy import varies


def matched(
    first: AccessibilityHistory, second: AccessibilityHistory
) -> tuple[AccessibilityHistory, AccessibilityHistory]:
    """Cut two histories where both reach the accuracy that the weaker one reaches at best.

    Constancy rises by itself as networks converge, since all end up missing the same few examples; two
    conditions are comparable only at the same accuracy.
    """
    curves = [h.accuracy.mean(0) for h in (first, second)]
    # first epoch at which each curve reaches it: accuracy may fall again later
    level = min(float(c.max()) for c in curves)
    ends = [int((c >= level - 1e-12).nonzero()[0]) + 1 for c in curves]
    return first.up_to(ends[0]), second.up_to(ends[1])


def smoothed_correlation(
    accessibility: Num[Tensor, " n"], score: Num[Tensor, " n"], *, window: int = 10
) -> float:
    """Correlation after a moving average over the values the score takes, as the paper's figures have it.

    For every distinct value of the score the mean accessibility is taken, then the mean over `window`
    neighbouring values. It flatters even more than bins do.
    """
    values = torch.unique(score)
    means = torch.stack([accessibility[score == v].double().mean() for v in values])
    if len(values) < window + 2:
        raise InvalidInput(f"`score` must take at least {window + 2} values; it takes {len(values)}.")
    smooth = means.unfold(0, window, 1).mean(1)
    centres = values.double().unfold(0, window, 1).mean(1)
    return float(pearson(smooth, centres))


def running_constancy(first: AccessibilityHistory, second: AccessibilityHistory) -> Float[Tensor, " epochs"]:
    """Constancy of the order learned up to each epoch; 0 where one ensemble still treats all alike."""
    correlations = []
    for epoch in range(1, min(first.n_epochs, second.n_epochs) + 1):
        a, b = first.up_to(epoch).scores, second.up_to(epoch).scores
        correlations.append(float(pearson(a, b)) if varies(a) and varies(b) else 0.0)
    return torch.tensor(correlations, dtype=torch.float64)
