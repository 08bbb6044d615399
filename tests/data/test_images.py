import pytest
import torch

from firstlight.core.errors import InvalidInput
from firstlight.data.images import ImageData, even_sample


def images(y):
    y = torch.tensor(y)
    return ImageData(torch.arange(len(y) * 4.0).reshape(-1, 1, 2, 2) / 1000, y, ("a", "b", "c"))


def test_a_sample_is_even_over_classes_that_are_large_enough():
    data = images([0] * 50 + [1] * 3 + [2] * 20)
    assert data.sample(13, seed=0).counts.tolist() == [5, 3, 5]


def test_a_sample_draws_without_replacement_and_repeats_itself():
    y = torch.arange(60) % 3
    index = even_sample(y, 60, n_classes=3, seed=4)
    assert sorted(index.tolist()) == list(range(60))
    assert torch.equal(index, even_sample(y, 60, n_classes=3, seed=4))
    assert not torch.equal(index, even_sample(y, 60, n_classes=3, seed=5))


@pytest.mark.parametrize("n", [0, -1, 7])
def test_more_images_than_there_are_cannot_be_drawn(n):
    with pytest.raises(InvalidInput, match=r"`n` must lie in 1 .. 6"):
        images([0, 1, 2] * 2).sample(n, seed=0)


def test_chosen_classes_are_renumbered_in_the_order_given():
    chosen = images([0, 1, 2, 2]).only("c", "a")
    assert chosen.y.tolist() == [1, 0, 0]
    assert chosen.classes == ("c", "a")
    assert chosen.x[0, 0, 0, 0] == 0


def test_an_unknown_a_repeated_and_an_absent_class_are_refused():
    data = images([0, 1])
    with pytest.raises(InvalidInput, match="Unknown class 'd'"):
        data.only("d")
    with pytest.raises(InvalidInput, match="once each"):
        data.only("a", "a")
    with pytest.raises(InvalidInput, match="No image of class 'c'"):
        data.only("a", "c")
