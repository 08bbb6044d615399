import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from firstlight._internal.errors import InvalidInput
from firstlight.data.images import ImageData
from firstlight.measures.learning_order.accessibility import AccessibilityHistory
from firstlight.measures.learning_order.constancy import (
    binned_correlation,
    fastest_share,
    learning_order_constancy,
    order_correlation,
)
from firstlight.measures.learning_order.critical_component import critical_component
from firstlight.measures.learning_order.discriminability import discriminabilities, discriminability
from reference import learning_order as reference


def history(correct):
    import numpy as np

    bits = torch.from_numpy(np.packbits(correct.numpy(), axis=-1))
    return AccessibilityHistory(bits=bits, n_examples=correct.shape[-1])


def ensemble(ease, seed, nets=4, epochs=10):
    """Networks that get an example right with a probability that grows with its ease and the epoch."""
    generator = torch.Generator().manual_seed(seed)
    level = torch.linspace(0.2, 1.0, epochs)[None, :, None] * ease
    return history(torch.rand(nets, epochs, len(ease), generator=generator) < level)


EASE = torch.linspace(0.1, 1, 200)


def test_constancy_of_two_ensembles_of_one_kind_is_high_and_its_ranges_hold_it():
    found = learning_order_constancy(ensemble(EASE, 0), ensemble(EASE, 1), third=ensemble(EASE, 2))
    assert found.value.low < found.value.value < found.value.high
    assert found.value.value > 0.8
    assert found.fastest is not None
    assert found.fastest.value < found.value.value  # a narrower range of ease


def test_constancy_of_unrelated_ensembles_is_within_chance():
    shuffled = EASE[torch.randperm(200, generator=torch.Generator().manual_seed(3))]
    found = learning_order_constancy(ensemble(EASE, 0), ensemble(shuffled, 1))
    assert abs(found.value.value) < 3 / 200**0.5
    assert found.fastest is None  # nobody independent chose them


def test_choosing_the_fastest_with_the_compared_ensembles_would_bias_downwards():
    flat = torch.full((400,), 0.5)  # no order at all: every correlation must be chance
    a, b, c = (ensemble(flat, seed) for seed in range(3))
    fair = learning_order_constancy(a, b, third=c).fastest.value
    both = AccessibilityHistory(bits=torch.cat([a.bits, b.bits]), n_examples=400)
    chosen = fastest_share(both)
    unfair = torch.corrcoef(torch.stack([a.scores[chosen], b.scores[chosen]]))[0, 1]
    assert abs(fair) < 3 / 80**0.5
    assert unfair < -0.4


def test_binned_correlations_flatter():
    generator = torch.Generator().manual_seed(0)
    score = torch.arange(500)
    noisy = -score / 500 + torch.randn(500, generator=generator)
    found = order_correlation(noisy, score)
    assert abs(found.binned) > abs(found.pointwise.value) + 0.2
    assert found.binned == pytest.approx(binned_correlation(noisy, score))
    assert found.chance.p_value < 0.01


@given(
    n=st.integers(2, 15),
    d=st.integers(1, 5),
    k=st.integers(1, 14),
    block=st.integers(1, 20),
    seed=st.integers(0, 999),
)
def test_discriminability_equals_its_definition(n, d, k, block, seed):
    k = min(k, n - 1)
    generator = torch.Generator().manual_seed(seed)
    points = torch.randn(n, d, generator=generator, dtype=torch.float64) + 5
    labels = torch.randint(3, (n,), generator=generator)
    found = discriminability(points, labels, k=k, block=block)
    torch.testing.assert_close(found, reference.discriminability(points, labels, k), rtol=0, atol=1e-12)


def test_discriminability_of_images_is_unchanged_by_shift_and_scale_and_excludes_the_point():
    generator = torch.Generator().manual_seed(0)
    images = torch.rand(30, 2, 3, 4, generator=generator, dtype=torch.float64)
    labels = torch.arange(30) % 3
    several = discriminabilities(images, labels, ks=(1, 5))
    assert torch.equal(several[1], discriminability(7 * images - 3, labels, k=5))
    some = torch.tensor([7, 2, 29])
    assert torch.equal(discriminability(images, labels, k=5, index=some), several[1][some])
    same = torch.ones(4, 1, 2, 2)
    alone = discriminability(same, torch.arange(4), k=3)  # all at distance zero, no two of a class
    assert torch.equal(alone, torch.zeros(4).double())
    with pytest.raises(InvalidInput, match=r"1 \.\. 3"):
        discriminability(same, torch.arange(4), k=4)
    with pytest.raises(InvalidInput, match="NaN"):
        discriminability(same * torch.nan, torch.arange(4), k=1)


@given(
    n=st.integers(3, 25),
    shape=st.sampled_from([(1, 1, 1), (1, 2, 3), (3, 2, 2), (2, 1, 4)]),
    classes=st.integers(2, 4),
    ridge=st.sampled_from([1e-3, 0.1, 10.0]),
    seed=st.integers(0, 999),
)
def test_critical_component_equals_one_classifier_trained_per_number(n, shape, classes, ridge, seed):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(n, *shape, generator=generator, dtype=torch.float64)
    data = ImageData(x, torch.arange(n) % classes, tuple("abcd"[:classes]))
    other = ImageData(
        torch.randn(7, *shape, generator=generator, dtype=torch.float64),
        torch.arange(7) % classes,
        data.classes,
    )
    for scored in (data, other):
        found = critical_component(data, scored, ridge=ridge)
        expected = reference.critical_component(
            x.flatten(1), data.y, scored.x.flatten(1), scored.y, classes, ridge
        )
        assert torch.equal(found.critical, expected)


def test_accuracy_by_number_of_components_is_told_and_undefined_examples_are_marked():
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(40, 1, 2, 2, generator=generator)
    data = ImageData(x, (x[:, 0, 0, 0] > 0).long(), ("a", "b"))
    found = critical_component(data)
    assert found.accuracy.shape == (4,)
    assert float(found.accuracy[-1]) == pytest.approx(float(found.defined.double().mean()))
