import pytest
import torch

from firstlight._internal.errors import InvalidInput
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


def test_a_data_set_shows_itself_in_one_line():
    data = images([0, 1, 2]).replace(meta={"name": "cifar10", "split": "train"})
    assert repr(data) == "ImageData(cifar10 train: 3 images of 1x2x2, 3 classes)"
    assert repr(images([0])) == "ImageData(1 image of 1x2x2, 3 classes)"


def test_pixels_are_scaled_as_a_model_expects():
    x = torch.rand(2, 3, 2, 2, generator=torch.Generator().manual_seed(0))
    data = ImageData(x, torch.tensor([0, 1]), ("a", "b"))
    mean, std = [0.1, 0.2, 0.3], [2.0, 4.0, 8.0]
    scaled = data.scaled(mean, std).x
    assert torch.equal(scaled[:, 1], (x[:, 1] - 0.2) / 4)
    assert torch.equal(data.scaled([0.5]).x, x - 0.5)
    turned = data.scaled(mean, std, bgr=True).x
    assert torch.equal(turned[:, 0], (x[:, 2] - 0.1) / 2)
    assert data.scaled() is data


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"std": [0.0]}, "all positive"),
        ({"mean": [0.0, 1.0]}, "one for each of 1 channels"),
        ({"bgr": True}, "`bgr` needs images of 3 channels; these have 1"),
    ],
)
def test_scalings_that_do_not_fit_the_channels_are_refused(options, message):
    with pytest.raises(InvalidInput, match=message):
        images([0]).scaled(**options)
