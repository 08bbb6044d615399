import numpy as np
import pytest
import torch

from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from firstlight.measures.learning_order.constancy import learning_order_constancy, order_correlation
from reproduce.studies.learning_order.common import matched, running_constancy, smoothed_correlation


def history(correct):
    bits = torch.from_numpy(np.packbits(correct.numpy(), axis=-1))
    return AccessibilityHistory(bits=bits, n_examples=correct.shape[-1])


def ensemble(ease, seed, nets=4, epochs=10):
    """Networks that get an example right with a probability that grows with its ease and the epoch."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.linspace(0.2, 1.0, epochs)[None, :, None] * ease
    return history(torch.rand(nets, epochs, len(ease), generator=generator) < level)


EASE = torch.linspace(0.1, 1, 200)


def test_matched_histories_end_at_one_accuracy():
    slow, fast = ensemble(EASE * 0.5, 0), ensemble(EASE, 1)
    a, b = matched(slow, fast)
    assert b.n_epochs < fast.n_epochs
    assert float(a.accuracy[:, -1].mean()) == pytest.approx(float(b.accuracy[:, -1].mean()), abs=0.06)


def test_running_constancy_ends_at_constancy():
    a, b = ensemble(EASE, 0), ensemble(EASE, 1)
    curve = running_constancy(a, b)
    assert len(curve) == 10
    assert float(curve[-1]) == pytest.approx(learning_order_constancy(a, b).value.value)


def test_smoothed_correlations_flatter():
    generator = torch.Generator().manual_seed(0)
    score = torch.arange(500)
    noisy = -score / 500 + torch.randn(500, generator=generator)
    pointwise = order_correlation(noisy, score).pointwise.value
    assert abs(smoothed_correlation(noisy, score, window=50)) > abs(pointwise) + 0.2
